// Runs requests that read IPVS, and answers with records.
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

/** Reads the only request of a buffer, and checks its fields. */
std::expected<Request, protocol::BadRecord> ReadRequest(std::span<const std::uint8_t> buffer);

/** IPVS_CMD_GET_SERVICE: asks for the virtual services of all families. */
wire::MessageWriter EncodeServicesDump(Route to);
/** IPVS_CMD_GET_DEST { IPVS_CMD_ATTR_SERVICE }: asks for the destinations of one service. */
wire::MessageWriter EncodeDestinationsDump(const ServiceKey& key, Route to);

/** Appends the record of a virtual service, if it has the family (0 = any). */
wire::Taken TakeService(std::uint8_t family, const wire::Message& message,
                        protocol::RecordWriter& out);
/** Appends the record of a destination of the service `key`. */
wire::Taken TakeDestination(const ServiceKey& key, const wire::Message& message,
                            protocol::RecordWriter& out);

/** Sends the request and returns the answers as records. */
std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket, std::uint16_t family_id,
                                                  const Request& request);

}  // namespace fairlead::ipvs

#endif  // FAIRLEAD_IPVS_DUMP_H_
