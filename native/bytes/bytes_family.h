#ifndef FAIRLEAD_BYTES_BYTES_FAMILY_H_
#define FAIRLEAD_BYTES_BYTES_FAMILY_H_

#include <array>
#include <map>
#include <tuple>
#include <variant>
#include <vector>

#include "protocol/netlink_family.h"
#include "protocol/ops.gen.h"
#include "protocol/record_writer.h"
#include "wire/attr_reader.h"

namespace fairlead::bytes {

/** Adds up the bytes of ended connections, for the records of src/kernel/conntrack-ops.ts. */
class Sums {
 public:
  /** Adds the connection of an event. Ignores messages of other types. */
  void Take(const wire::Message& message);
  /** `lost`: connections of which there was no event. */
  void Append(std::uint32_t lost, protocol::RecordWriter& out) const;

 private:
  using Address = std::vector<std::uint8_t>;
  /** Protocol, port of the frontend, its address, address of the endpoint. */
  using Key = std::tuple<std::uint8_t, std::uint16_t, Address, Address>;
  /** From clients, and to them. */
  using Bytes = std::array<std::uint64_t, 2>;

  std::map<Key, Bytes> rows_;
  std::uint64_t missed_ = 0;
};

/**
 * Reads the events of connection tracking about connections that end. Its socket joins
 * NFNLGRP_CONNTRACK_DESTROY at the first request, and sends nothing.
 */
class BytesFamily
    : public protocol::NetlinkFamily<std::variant<>, std::variant<protocol::request::BytesRead>> {
 public:
  BytesFamily() noexcept;

 private:
  std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket,
                                                    std::span<const std::uint8_t> buffer) override;

  /** Events that the kernel has dropped for the socket, as last read. */
  std::uint32_t dropped_ = 0;
};

}  // namespace fairlead::bytes

#endif  // FAIRLEAD_BYTES_BYTES_FAMILY_H_
