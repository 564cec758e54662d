// Reads of IPVS: one request, its answers as records.
#ifndef FAIRLEAD_IPVS_DUMP_H_
#define FAIRLEAD_IPVS_DUMP_H_

#include <cstdint>
#include <expected>
#include <span>
#include <variant>

#include "base/byte_buffer.h"
#include "base/system_error.h"
#include "ipvs/message.h"
#include "protocol/ops.gen.h"
#include "wire/dump_reader.h"

namespace fairlead::ipvs {

using Request =
    std::variant<protocol::request::VirtualServicesDump, protocol::request::DestinationsDump,
                 protocol::request::IpvsTimeoutsGet, protocol::request::IpvsInfoGet>;

/** The one request that a buffer holds, if it makes sense. */
std::expected<Request, protocol::BadRecord> ReadRequest(std::span<const std::uint8_t> buffer);

/** Asks for virtual services of all families: IPVS_CMD_GET_SERVICE. */
wire::MessageWriter EncodeServicesDump(Route to);
/** Asks for the destinations of one service: IPVS_CMD_GET_DEST { IPVS_CMD_ATTR_SERVICE }. */
wire::MessageWriter EncodeDestinationsDump(const ServiceKey& key, Route to);

/** Appends the record of a virtual service, if it is of the family (0 = any). */
wire::Taken TakeService(std::uint8_t family, const wire::Message& message,
                        protocol::RecordWriter& out);
wire::Taken TakeDestination(const ServiceKey& key, const wire::Message& message,
                            protocol::RecordWriter& out);

/** Sends the request and collects the answers. */
std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket, std::uint16_t family_id,
                                                  const Request& request);

}  // namespace fairlead::ipvs

#endif  // FAIRLEAD_IPVS_DUMP_H_
