// Parts of an expression: attributes of NFTA_EXPR_DATA, most of which are a field of its record.
//
// Put writes a part. Take reads it into the record, and is false where the expression is of a form
// that the record cannot express.
#ifndef FAIRLEAD_NFT_EXPR_PARTS_H_
#define FAIRLEAD_NFT_EXPR_PARTS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "nft/verdict.h"
#include "wire/attr_reader.h"
#include "wire/message_writer.h"

namespace fairlead::nft::expr {

/** No attribute of an expression that we know has a higher number. */
using Attributes = wire::AttrTable<16>;
using wire::MessageWriter;

/** Numbers are in network order. */
inline void PutOne(MessageWriter& out, std::uint16_t type, std::uint8_t value) {
  out.PutU8(type, value);
}
inline void PutOne(MessageWriter& out, std::uint16_t type, std::uint32_t value) {
  out.PutU32Be(type, value);
}
inline void PutOne(MessageWriter& out, std::uint16_t type, std::uint64_t value) {
  out.PutU64Be(type, value);
}
inline void PutOne(MessageWriter& out, std::uint16_t type, std::string_view value) {
  out.PutString(type, value);
}
inline void PutOne(MessageWriter& out, std::uint16_t type, std::span<const std::uint8_t> value) {
  out.PutBytes(type, value);
}

/** `value` holds what a missing attribute stands for, and keeps it then. */
inline void TakeOne(const Attributes& from, std::size_t type, std::uint8_t& value) {
  value = from.U8(type, value);
}
inline void TakeOne(const Attributes& from, std::size_t type, std::uint32_t& value) {
  value = from.U32Be(type, value);
}
inline void TakeOne(const Attributes& from, std::size_t type, std::uint64_t& value) {
  value = from.U64Be(type, value);
}
inline void TakeOne(const Attributes& from, std::size_t type, std::string_view& value) {
  value = from.String(type);
}
inline void TakeOne(const Attributes& from, std::size_t type,
                    std::span<const std::uint8_t>& value) {
  value = from.Bytes(type);
}

/** Is always written; reads as zero or empty where it is missing. */
template <typename R, typename Value>
struct Plain {
  constexpr Plain(std::uint16_t attribute, Value R::*field) : type(attribute), member(field) {}

  void Put(const R& record, MessageWriter& out) const { PutOne(out, type, record.*member); }
  bool Take(const Attributes& from, R& record) const {
    TakeOne(from, type, record.*member);
    return true;
  }

  std::uint16_t type;
  Value R::*member;
};

/** Makes the form: without it the expression is of another one. */
template <typename R, typename Value>
struct Needed : Plain<R, Value> {
  constexpr Needed(std::uint16_t attribute, Value R::*field) : Plain<R, Value>(attribute, field) {}

  bool Take(const Attributes& from, R& record) const {
    return from.Has(this->type) && Plain<R, Value>::Take(from, record);
  }
};

/** Is written unless it is `absent`, which a missing one stands for. */
template <typename R, typename Value>
struct Optional {
  constexpr Optional(std::uint16_t attribute, Value R::*field, Value missing)
      : plain(attribute, field), absent(missing) {}

  void Put(const R& record, MessageWriter& out) const {
    if (record.*plain.member != absent) plain.Put(record, out);
  }
  bool Take(const Attributes& from, R& record) const {
    record.*plain.member = absent;
    return plain.Take(from, record);
  }

  Plain<R, Value> plain;
  Value absent;
};

/** { NFTA_DATA_VALUE bytes } */
template <typename R>
struct Data {
  constexpr Data(std::uint16_t attribute, std::span<const std::uint8_t> R::*field)
      : type(attribute), member(field) {}

  void Put(const R& record, MessageWriter& out) const { PutValue(out, type, record.*member); }
  bool Take(const Attributes& from, R& record) const {
    const auto value = ReadValue(from.Bytes(type));
    if (value) record.*member = *value;
    return value.has_value();
  }

  std::uint16_t type;
  std::span<const std::uint8_t> R::*member;
};

/** An attribute that no record can express. It is never written. */
struct Missing {
  template <typename R>
  void Put(const R&, MessageWriter&) const {}
  template <typename R>
  bool Take(const Attributes& from, R&) const {
    return !from.Has(type);
  }

  std::uint16_t type;
};

/** The same, but a zero is as good as none. */
struct Zero {
  template <typename R>
  void Put(const R&, MessageWriter&) const {}
  template <typename R>
  bool Take(const Attributes& from, R&) const {
    return from.U32Be(type) == 0;
  }

  std::uint16_t type;
};

}  // namespace fairlead::nft::expr

#endif  // FAIRLEAD_NFT_EXPR_PARTS_H_
