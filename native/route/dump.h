// Runs requests that read links, addresses and neighbours, and answers with records.
#ifndef FAIRLEAD_ROUTE_DUMP_H_
#define FAIRLEAD_ROUTE_DUMP_H_

#include <cstdint>
#include <expected>
#include <span>
#include <variant>

#include "base/byte_buffer.h"
#include "base/system_error.h"
#include "protocol/ops.gen.h"
#include "wire/dump_reader.h"

namespace fairlead::route {

using Request =
    std::variant<protocol::request::LinkGet, protocol::request::LinksDump,
                 protocol::request::AddressesDump, protocol::request::DeadNeighboursDump>;

/** Reads the only request of a buffer, and checks its fields. */
std::expected<Request, protocol::BadRecord> ReadRequest(std::span<const std::uint8_t> buffer);

/** RTM_GETADDR ifaddrmsg { family, index }; 0 = any family, or any link. */
wire::MessageWriter EncodeAddressesDump(std::uint8_t family, std::uint32_t index,
                                        std::uint32_t sequence);

/**
 * Appends the record of RTM_NEWADDR, if it has this family and link (0 = any). Old kernels ignore
 * both in the request and send all addresses.
 *
 *   ifaddrmsg { family, prefixlen, flags u8, scope, index }
 *     IFA_LOCAL, or IFA_ADDRESS where that is missing (IPv6), IFA_FLAGS u32
 */
wire::Taken TakeAddress(std::uint8_t family, std::uint32_t index, const wire::Message& message,
                        protocol::RecordWriter& out);

/**
 * Appends the record of RTM_NEWNEIGH if its state is NUD_INCOMPLETE or NUD_FAILED.
 *
 *   ndmsg { family, padding, ifindex i32, state u16, flags u8, type u8 }
 *     NDA_DST
 */
wire::Taken TakeDeadNeighbour(const wire::Message& message, protocol::RecordWriter& out);

/** Sends the request and returns the answers as records. */
std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket, const Request& request);

}  // namespace fairlead::route

#endif  // FAIRLEAD_ROUTE_DUMP_H_
