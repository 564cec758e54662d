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

/** Refuses families without conntrack, and a buffer that ends within an entry. */
protocol::Checked Check(const DeleteRequest& request) noexcept;

/**
 * One message for each packed entry. The kernel acknowledges each:
 *
 *   IPCTNL_MSG_CT_DELETE { CTA_TUPLE_ORIG, CTA_ID, CTA_ZONE unless that is 0 }
 *
 * The tuple must not be missing, because the message would empty the whole table
 * (ctnetlink_del_conntrack). Kernels without zones would refuse CTA_ZONE 0.
 */
wire::MessageWriter EncodeDelete(std::uint8_t family, std::span<const std::uint8_t> entries,
                                 std::uint32_t first_sequence);

/** Deletes the entries. The request must have passed Check. The answer has an errno for each. */
std::expected<ByteBuffer, SystemError> RunDelete(wire::Socket& socket,
                                                 const DeleteRequest& request);

}  // namespace fairlead::conntrack

#endif  // FAIRLEAD_CONNTRACK_DELETE_H_
