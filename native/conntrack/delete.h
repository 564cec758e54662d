// Deletes entries of connection tracking.
#ifndef FAIRLEAD_CONNTRACK_DELETE_H_
#define FAIRLEAD_CONNTRACK_DELETE_H_

#include <cstdint>
#include <expected>
#include <span>

#include "base/byte_buffer.h"
#include "base/system_error.h"
#include "protocol/ops.gen.h"
#include "wire/message_writer.h"
#include "wire/socket.h"

namespace fairlead::conntrack {

using DeleteRequest = protocol::request::ConntrackDelete;

/** Refuses families without conntrack and a buffer that is not whole entries. */
protocol::Checked Check(const DeleteRequest& request) noexcept;

/**
 * One message for each packed entry of `entries`, each answered by itself:
 *
 *   IPCTNL_MSG_CT_DELETE { CTA_TUPLE_ORIG, CTA_ID, CTA_ZONE unless that is 0 }
 *
 * The tuple must never be missing: the message would empty the whole table
 * (ctnetlink_del_conntrack). CTA_ZONE 0 would be refused by kernels without zones.
 */
wire::MessageWriter EncodeDelete(std::uint8_t family, std::span<const std::uint8_t> entries,
                                 std::uint32_t first_sequence);

/** Deletes; the request must have passed Check. */
std::expected<ByteBuffer, SystemError> RunDelete(wire::Socket& socket,
                                                 const DeleteRequest& request);

}  // namespace fairlead::conntrack

#endif  // FAIRLEAD_CONNTRACK_DELETE_H_
