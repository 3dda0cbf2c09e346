// t[q] = b[q] + a[q] t[q-1], in the order of the contract: serial inside a block from its carry,
// blocks and chunks composed through (L, gain).
//
// A policy says what a step is, and what a gain is: the factor with which a carry passes through a
// block. It has
//   C, kInputs, kSummaryInputs (the first few, which the factors need), kOutputs, kAhead (an input
//   that is read one step ahead, or -1)
//   Memory<V>   what a step remembers of the one before, and begin, finish_input to set it
//   Gain<V>     with start, finish (at a block's end), compose, pack, unpack and
//   join(l, gain, v)    l + gain * v
//   square      up to 16 steps: s.t (if Emit) and s.l, s.gain (if Summary) advance; outputs go to
//               the last squares. Written as loops over the steps, first what is independent (exp,
//               split), then the short chain, then the rest: a chain with an exp in it runs at the
//               speed of the exp's latency, three times slower.
//   end_rows    where rows end, if a policy has something to do there
#pragma once

#include "memory/threads.h"
#include "scan/pieces.h"
#include "scan/row_values.h"

namespace gradplan::scan {

// Carries of pieces: arrays by field, indexed by piece id.
template <class C>
struct RecurrenceCarries {
  C* l;        // summary: the piece's own sum
  C* gain[2];  // summary: its gain, as the policy stores it
  C* t;        // what comes in
  C* has;      // 1 where something comes in
  C* memory;   // what the first step remembers, where a policy needs it from another sweep
  static constexpr int kArrays = 6;

  // There are none, and no workspace for them, where rows are whole.
  RecurrenceCarries(char* workspace, const Cut& cut)
      : RecurrenceCarries(workspace, cut.whole() ? 0 : cut.ids()) {}
  RecurrenceCarries(char* workspace, int64_t ids) {
    C* arrays[kArrays] = {};
    for (int i = 0; i < kArrays && ids > 0; ++i) arrays[i] = PieceArrays<C>::at(workspace, ids, i);
    l = arrays[0];
    gain[0] = arrays[1];
    gain[1] = arrays[2];
    t = arrays[3];
    has = arrays[4];
    memory = arrays[5];
  }
};

template <class C>
int64_t recurrence_workspace(const Cut& cut) {
  return cut.whole() ? 0 : PieceArrays<C>::bytes(cut.ids(), RecurrenceCarries<C>::kArrays);
}

// The values of one input one position before each lane starts; before rows that is `outside`, or
// zero.
template <class C>
Lanes<C> before_lanes(const LaneInputs<C>& inputs, int input, const LaneRange& range, int64_t lane,
                      int lanes, const RowValues& outside) {
  alignas(64) C buffer[kLanes] = {};
  unsigned inside = 0;
  for (int l = 0; l < lanes; ++l) {
    if (range.first_piece + (lane + l) / range.rows > 0)
      inside |= 1u << l;
    else if (outside.present())
      buffer[l] = outside.load<C>((lane + l) % range.rows);
  }
  if (inside != 0) inputs.read(input, -1, inside, buffer);
  return Lanes<C>::load(buffer);
}

template <class Policy>
struct RecurrenceState {
  using V = Lanes<typename Policy::C>;
  using Gain = typename Policy::template Gain<V>;
  V t, l;     // true and local value of the step before
  Gain gain;  // of the block so far
  V l2;       // blocks of the chunk before this one
  Gain gain2;
  V t2;        // into the chunk
  Gain gain3;  // of the chunks before this one
  MaskOf<V> has_t2, has_t;
  bool has_l2, has_gain3;
  typename Policy::template Memory<V> memory;
};

template <class Policy, bool Emit>
struct Recurrence final : SweepKernelOf<typename Policy::C, RecurrenceState<Policy>> {
  using C = typename Policy::C;
  using V = Lanes<C>;
  using State = RecurrenceState<Policy>;
  using Gain = typename State::Gain;

  Policy policy;
  const RecurrenceCarries<C>* carries;  // pieces; null: whole rows
  RowValues initial;                    // what comes into whole rows, if anything does
  bool by_chunk;
  int64_t row_length;

  // A sweep that only summarises does not read what only the output needs.
  Recurrence(const Policy& policy, const RecurrenceCarries<C>* carries, const RowValues& initial,
             bool by_chunk, int64_t row_length)
      : SweepKernelOf<C, State>(Emit ? Policy::kInputs : Policy::kSummaryInputs,
                                Emit ? Policy::kOutputs : 0, Policy::kAhead),
        policy(policy),
        carries(carries),
        initial(initial),
        by_chunk(by_chunk),
        row_length(row_length) {}

  void begin(void* state, const LaneInputs<C>& inputs, const LaneRange& range, int64_t lane,
             int lanes) const override {
    State& s = this->of(state);
    const MaskOf<V> none(IntOf<C>(0));
    s.t = s.t2 = s.l = s.l2 = V(C(-0.0));
    s.has_t = s.has_t2 = none;
    s.has_l2 = s.has_gain3 = false;
    const C* remembered = carries != nullptr && carries->memory != nullptr
                              ? carries->memory + range.id(lane)
                              : nullptr;
    policy.template begin<Emit>(s.memory, inputs, range, lane, lanes, row_length, remembered);
    if (Emit && carries != nullptr) {
      s.t = s.t2 = V::load(carries->t + range.id(lane));
      s.has_t = s.has_t2 = V::load(carries->has + range.id(lane)) != V(C(0));
    } else if (Emit && initial.present()) {
      s.t = s.t2 = initial.load_lanes<C>(lane, lanes);
      s.has_t = s.has_t2 = MaskOf<V>(IntOf<C>(-1));
    }
    s.gain = Policy::template start<V>(s.memory);
  }

  void square(void* state, Square<C>* squares, int64_t step, int count,
              int64_t length) const override {
    State& s = this->of(state);
    const bool first = step % kBlock == 0;
    if (Emit && step + count == length) policy.finish_input(s.memory, squares, count);
    // The local value is needed only where another block follows.
    if (!Emit || (step / kBlock + 1) * kBlock < length)
      run<true>(s, squares, step, count, first);
    else
      run<false>(s, squares, step, count, first);
  }

  template <bool Summary>
  GP_INLINE void run(State& s, Square<C>* squares, int64_t step, int count, bool first) const {
    policy.template square<Emit, Summary>(s, squares, step, count, first);
  }

  void next_block(void* state, bool chunk_ended) const override {
    State& s = this->of(state);
    Policy::finish(s.gain, s.memory);
    if (s.has_l2) {
      s.l2 = Policy::join(s.l, s.gain, s.l2);
      s.gain2 = Policy::compose(s.gain, s.gain2);
    } else {
      s.l2 = s.l;
      s.gain2 = s.gain;
      s.has_l2 = true;
    }
    s.t = select(s.has_t2, Policy::join(s.l2, s.gain2, s.t2), s.l2);
    s.has_t = MaskOf<V>(IntOf<C>(-1));
    if (chunk_ended) {
      if constexpr (!Emit) s.gain3 = s.has_gain3 ? Policy::compose(s.gain2, s.gain3) : s.gain2;
      s.has_gain3 = true;
      s.t2 = s.t;
      s.has_t2 = s.has_t;
      s.has_l2 = false;
    }
    s.gain = Policy::template start<V>(s.memory);
  }

  void end([[maybe_unused]] void* state, [[maybe_unused]] const LaneRange& range,
           [[maybe_unused]] int64_t lane, [[maybe_unused]] int lanes) const override {
    if constexpr (Emit) {
      if constexpr (requires { &Policy::template end_rows<State>; })
        policy.end_rows(this->of(state), range, lane, lanes, row_length);
    } else {
      State& s = this->of(state);
      Policy::finish(s.gain, s.memory);
      V l = s.l;
      Gain gain = s.gain;
      if (by_chunk && s.has_l2) {
        l = Policy::join(s.l, s.gain, s.l2);
        gain = Policy::compose(s.gain, s.gain2);
      }
      if (s.has_gain3) {
        l = Policy::join(l, gain, s.t2);
        gain = Policy::compose(gain, s.gain3);
      }
      const int64_t id = range.id(lane);
      store_used(l, carries->l + id, lanes);
      V fields[2];
      Policy::pack(gain, fields);
      for (int f = 0; f < 2; ++f) store_used(fields[f], carries->gain[f] + id, lanes);
    }
  }
};

// Chains the summaries of pieces [from, to) of every row.
template <class Policy, class C>
void chain_recurrence(const Cut& cut, const RecurrenceCarries<C>& carries, int64_t from,
                      int64_t to) {
  using Gain = typename Policy::template Gain<C>;
  for (int64_t row = 0; row < cut.rows; ++row) {
    // State of the chunk that piece `from` stands in. Spans are whole chunks, so it starts empty.
    bool has_l2 = false;
    C l2 = 0;
    Gain gain2{};
    C t2 = carries.t[from * cut.rows + row];
    bool has_t2 = carries.has[from * cut.rows + row] != 0;
    for (int64_t piece = from; piece < to && piece + 1 < cut.pieces(); ++piece) {
      const int64_t id = piece * cut.rows + row, next = id + cut.rows;
      const C fields[2] = {carries.gain[0][id], carries.gain[1][id]};
      const Gain gain = Policy::template unpack<C>(fields);
      if (has_l2) {
        l2 = Policy::join(carries.l[id], gain, l2);
        gain2 = Policy::compose(gain, gain2);
      } else {
        l2 = carries.l[id];
        gain2 = gain;
        has_l2 = true;
      }
      const C t = has_t2 ? Policy::join(l2, gain2, t2) : l2;
      if ((piece + 1) * cut.piece % kChunk == 0) {
        t2 = t;
        has_t2 = true;
        has_l2 = false;
      }
      carries.t[next] = t;
      carries.has[next] = 1;
    }
  }
}

// Operands: the policy's inputs, then its outputs. `carries` may be null if the rows are whole.
// `initial` has what comes into each row, or is not present.
template <class Policy>
void run_recurrence(const Policy& policy, const RowTensors& tensors, const Cut& cut,
                    const RecurrenceCarries<typename Policy::C>* carries,
                    const RowValues& initial = {}) {
  using C = typename Policy::C;
  if (cut.empty()) return;
  const bool by_chunk = cut.piece == kChunk;
  const Recurrence<Policy, true> emit(policy, cut.whole() ? nullptr : carries, initial, by_chunk,
                                      cut.n);
  if (cut.whole()) {
    sweep<C>(emit, tensors, {cut.rows, 0, 1, cut.n, cut.n});
    return;
  }
  for (int64_t row = 0; row < cut.rows; ++row) {
    carries->t[row] = initial.present() ? initial.load<C>(row) : C(-0.0);
    carries->has[row] = initial.present();
  }
  const Recurrence<Policy, false> summarise(policy, carries, {}, by_chunk, cut.n);
  const RowTensors inputs = tensors.only(Policy::kSummaryInputs);
  const int64_t per_chunk = kChunk / cut.piece;
  const int64_t span =
      (span_pieces(cut, tensors.operands * tensors.item()) + per_chunk - 1) / per_chunk * per_chunk;
  for (int64_t from = 0; from < cut.pieces(); from += span) {
    const int64_t to = std::min(from + span, cut.pieces());
    cut.ranges(from, std::min(to, cut.full()),
               [&](const LaneRange& r) { sweep<C>(summarise, inputs, r); });
    {
      FloatEnvironment environment;
      chain_recurrence<Policy>(cut, *carries, from, to);
    }
    cut.ranges(from, to, [&](const LaneRange& r) { sweep<C>(emit, tensors, r); });
  }
}

// What each row hands on behind its end if nothing comes in, and the gain of all of it. Fills
// carries.l and carries.gain, which have room for every row.
template <class Policy>
void total_recurrence(const Policy& policy, const RowTensors& tensors,
                      const RecurrenceCarries<typename Policy::C>& carries) {
  const int64_t n = tensors.n;
  const Recurrence<Policy, false> summarise(policy, &carries, {}, true, n);
  sweep<typename Policy::C>(summarise, tensors.only(Policy::kSummaryInputs),
                            {tensors.rows, 0, 1, n, n});
}

}  // namespace gradplan::scan
