#ifndef FAIRLEAD_PROTOCOL_FIELD_H_
#define FAIRLEAD_PROTOCOL_FIELD_H_

namespace fairlead::protocol {

/** A field of a record: its name in the schema, and the member that holds its value. */
template <typename Record, typename Value>
struct Field {
  constexpr Field(const char* field, Value Record::*value) noexcept : name(field), member(value) {}

  const char* name;
  Value Record::*member;
};

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_FIELD_H_
