// Launches by the call that they are for: shapes, element types and devices of tensors, and
// options.
//
// A program makes the same call again and again, hence a look at the last one first: it spares
// the making and hashing of a key, which takes longer than all the rest.
#pragma once
#include <array>
#include <span>

#include "tensors.h"

namespace gradplan {

class Call {  // what a launch depends on
 public:
  Call(PyObject* const* options, int count) : options_(options, size_t(count)) {}

  // False if it cannot be remembered: too many axes, or a device without launches.
  bool add(const DLTensor& t);
  bool add_none();  // an optional tensor that was left out
  // Options must not change, and not hash as something else: numbers, words and None.
  bool has_plain_options() const;

  std::span<const int64_t> shapes() const { return {words_.data(), used_}; }
  std::span<PyObject* const> options() const { return options_; }

 private:
  std::array<int64_t, 64> words_;  // of each tensor: device, rank, type in one, and the extents
  size_t used_ = 0;
  std::span<PyObject* const> options_;
};

class Cache {
 public:
  bool make(Py_ssize_t limit);  // of that many calls; if it is full it starts over
  // A new reference to what was added, or nothing; errors are no reason to fail.
  Ref find(const Call& call);
  bool add(const Call& call, PyObject* launch);
  void clear();

 private:
  bool is_last(const Call& call) const;

  struct Found {
    std::vector<int64_t> shapes;
    std::vector<Ref> options;
    Ref launch;
  };
  Py_ssize_t limit_ = 0;
  Ref launches_;  // a dictionary
  Found last_;
};

}  // namespace gradplan
