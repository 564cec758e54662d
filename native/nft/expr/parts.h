// Parts of an expression. Each is an attribute of NFTA_EXPR_DATA, and most are a field of a record.
//
// Put writes a part. Take reads it into the record. Take is false when the record cannot express
// the expression.
#ifndef FAIRLEAD_NFT_EXPR_PARTS_H_
#define FAIRLEAD_NFT_EXPR_PARTS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "nft/verdict.h"
#include "wire/attr_reader.h"
#include "wire/message_writer.h"

namespace fairlead::nft::expr {

/** The expressions in expressions.cc have no attributes with higher numbers. */
using Attributes = wire::AttrTable<16>;
using wire::MessageWriter;

// Numbers are in network order.
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

// When the attribute is missing, a number keeps its value.
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

/** An attribute that is always written. A missing one reads as zero or empty. */
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

/** An attribute that is always written. Without it the expression has another form. */
template <typename R, typename Value>
struct Needed : Plain<R, Value> {
  constexpr Needed(std::uint16_t attribute, Value R::*field) : Plain<R, Value>(attribute, field) {}

  bool Take(const Attributes& from, R& record) const {
    return from.Has(this->type) && Plain<R, Value>::Take(from, record);
  }
};

/** An attribute that is written unless its value is `absent`. A missing one reads as `absent`. */
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

/** An attribute that records cannot express. It must be missing, and is never written. */
struct Missing {
  template <typename R>
  void Put(const R&, MessageWriter&) const {}
  template <typename R>
  bool Take(const Attributes& from, R&) const {
    return !from.Has(type);
  }

  std::uint16_t type;
};

/** As Missing, but the attribute may also be zero. */
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
