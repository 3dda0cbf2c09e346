#include "ffi/kernel.h"

namespace gradplan::ffi {

int Problem::at(const std::string& tensor) const {
  const auto found = slot.find(tensor);
  return found == slot.end() ? -1 : found->second;
}

bool Problem::has(const std::string& attribute) const { return attributes.contains(attribute); }

int64_t Problem::integer(const std::string& attribute) const {
  return std::get<int64_t>(attributes.at(attribute));
}

double Problem::real(const std::string& attribute) const {
  const AttributeValue& value = attributes.at(attribute);
  if (const auto* integer = std::get_if<int64_t>(&value)) return double(*integer);
  return std::get<double>(value);
}

const std::string& Problem::text(const std::string& attribute) const {
  return std::get<std::string>(attributes.at(attribute));
}

}  // namespace gradplan::ffi
