// Messages about the sets of ipset.
#ifndef FAIRLEAD_IPSET_MESSAGE_H_
#define FAIRLEAD_IPSET_MESSAGE_H_

#include <cstdint>
#include <expected>
#include <string>

#include "protocol/ops.gen.h"
#include "wire/attr_reader.h"
#include "wire/message_writer.h"

namespace fairlead::ipset {

/** Appends IPSET_CMD_DESTROY { IPSET_ATTR_PROTOCOL, IPSET_ATTR_SETNAME }. Some failures are not
 * errnos but IPSET_ERR_*, from 4096 on. */
std::expected<void, protocol::DecodeError> EncodeDestroy(const protocol::op::IpsetDestroy& op,
                                                         std::uint32_t sequence,
                                                         wire::MessageWriter& out);

/** IPSET_CMD_LIST { IPSET_ATTR_PROTOCOL, IPSET_ATTR_FLAGS be32: IPSET_FLAG_LIST_HEADER }. */
wire::MessageWriter EncodeListHeaders(std::uint32_t sequence);
/** IPSET_CMD_LIST { IPSET_ATTR_PROTOCOL, IPSET_ATTR_SETNAME }. */
wire::MessageWriter EncodeListMembers(std::string_view set, std::uint32_t sequence);

/**
 * Appends the record of a set from an answer:
 *
 *   IPSET_ATTR_SETNAME, IPSET_ATTR_TYPENAME, IPSET_ATTR_DATA { IPSET_ATTR_REFERENCES be32, ... }
 */
std::expected<void, std::string> TakeHeader(const wire::Message& message,
                                            protocol::RecordWriter& out);

/**
 * Appends a record of ports from an answer; a set may take several:
 *
 *   IPSET_ATTR_ADT { IPSET_ATTR_DATA { IPSET_ATTR_PORT be16, ... }, ... }
 */
std::expected<void, std::string> TakePorts(const wire::Message& message,
                                           protocol::RecordWriter& out);

}  // namespace fairlead::ipset

#endif  // FAIRLEAD_IPSET_MESSAGE_H_
