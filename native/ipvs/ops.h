// Encodes the ops that change IPVS. Each op is one message.
#ifndef FAIRLEAD_IPVS_OPS_H_
#define FAIRLEAD_IPVS_OPS_H_

#include <cstdint>
#include <variant>

#include "ipvs/message.h"
#include "protocol/ops.gen.h"
#include "wire/message_writer.h"

namespace fairlead::ipvs {

using Op = std::variant<protocol::op::VirtualServiceAdd, protocol::op::VirtualServiceSet,
                        protocol::op::VirtualServiceDelete, protocol::op::DestinationAdd,
                        protocol::op::DestinationSet, protocol::op::DestinationDelete,
                        protocol::op::IpvsTimeoutsSet>;

/**
 * Appends the message of an op:
 *
 *   IPVS_CMD_NEW_SERVICE, _SET_SERVICE, _DEL_SERVICE, _NEW_DEST, _SET_DEST, _DEL_DEST
 *     IPVS_CMD_ATTR_SERVICE {
 *       IPVS_SVC_ATTR_AF u16, _PROTOCOL u16, _ADDR 16 bytes, _PORT be16: its key
 *       IPVS_SVC_ATTR_SCHED_NAME, _FLAGS { u32 flags, u32 mask }, _TIMEOUT u32, _NETMASK: with
 *         NEW_SERVICE and SET_SERVICE }
 *     IPVS_CMD_ATTR_DEST {
 *       IPVS_DEST_ATTR_ADDR 16 bytes, _PORT be16, _ADDR_FAMILY u16
 *       IPVS_DEST_ATTR_FWD_METHOD u32, _WEIGHT u32, _U_THRESH u32, _L_THRESH u32: with NEW_DEST and
 *         SET_DEST }
 *   IPVS_CMD_SET_CONFIG
 *     IPVS_CMD_ATTR_TIMEOUT_TCP u32, _TCP_FIN u32, _UDP u32
 *
 * Numbers are in host order, unless said otherwise. On failure the caller drops what was written.
 */
protocol::Checked EncodeOp(const Op& op, Route to, wire::MessageWriter& out);

}  // namespace fairlead::ipvs

#endif  // FAIRLEAD_IPVS_OPS_H_
