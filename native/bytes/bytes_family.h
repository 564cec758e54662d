#ifndef FAIRLEAD_BYTES_BYTES_FAMILY_H_
#define FAIRLEAD_BYTES_BYTES_FAMILY_H_

#include <array>
#include <map>
#include <random>
#include <tuple>
#include <variant>
#include <vector>

#include "conntrack/entry.h"
#include "protocol/netlink_family.h"
#include "protocol/ops.gen.h"
#include "protocol/record_writer.h"
#include "wire/attr_reader.h"

namespace fairlead::bytes {

/** Adds up the bytes of ended connections, for the records of src/kernel/conntrack-ops.ts. */
class Sums {
 public:
  /** `asked` must outlive this object. */
  explicit Sums(const protocol::request::BytesRead& asked) noexcept : asked_(asked) {}
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
  struct Row {
    Bytes bytes{};
    /** Connections by duration, and the sum of milliseconds. */
    std::vector<std::uint32_t> durations;
    std::uint64_t ms = 0;
  };
  /** A record without its addresses, and these. */
  struct Flow {
    protocol::reply::FlowOfEnded record;
    Address client;
    Address frontend;
    Address endpoint;
  };

  /** Keeps the flow if there is room, else by chance: each is equally likely. -1: not timed. */
  void Keep(const conntrack::Entry& entry, const Bytes& bytes, std::int64_t ms);

  const protocol::request::BytesRead& asked_;
  std::map<Key, Row> rows_;
  std::vector<Flow> flows_;
  std::minstd_rand random_{std::random_device{}()};
  std::uint64_t flows_seen_ = 0;
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
