// Reads objects of IPVS from netlink messages into records.
#ifndef FAIRLEAD_IPVS_DECODE_H_
#define FAIRLEAD_IPVS_DECODE_H_

#include <cstdint>
#include <expected>
#include <span>
#include <string>

#include "ipvs/message.h"
#include "protocol/ops.gen.h"

namespace fairlead::ipvs {

/**
 * Reads the attributes of IPVS_CMD_NEW_SERVICE:
 *
 *   IPVS_CMD_ATTR_SERVICE {
 *     IPVS_SVC_ATTR_AF u16; _PROTOCOL u16, _ADDR 16 bytes, _PORT be16 or _FWMARK u32
 *     IPVS_SVC_ATTR_SCHED_NAME, _FLAGS { u32 flags, u32 mask }, _TIMEOUT u32, _NETMASK
 *     IPVS_SVC_ATTR_STATS64 { IPVS_STATS_ATTR_* u64 } }
 *
 * Numbers are in host order, unless said otherwise. The record refers to `attributes`. On failure:
 * what is wrong.
 */
std::expected<protocol::reply::VirtualService, std::string> DecodeService(
    std::span<const std::uint8_t> attributes);

/**
 * The same for IPVS_CMD_NEW_DEST, the answer to a request about the service `key`:
 *
 *   IPVS_CMD_ATTR_DEST {
 *     IPVS_DEST_ATTR_ADDR 16 bytes, _PORT be16, _ADDR_FAMILY u16
 *     IPVS_DEST_ATTR_FWD_METHOD u32, _WEIGHT u32, _U_THRESH u32, _L_THRESH u32
 *     IPVS_DEST_ATTR_ACTIVE_CONNS u32, _INACT_CONNS u32, _PERSIST_CONNS u32
 *     IPVS_DEST_ATTR_STATS64 { IPVS_STATS_ATTR_* u64 } }
 */
std::expected<protocol::reply::Destination, std::string> DecodeDestination(
    const ServiceKey& key, std::span<const std::uint8_t> attributes);

/** IPVS_CMD_SET_CONFIG: IPVS_CMD_ATTR_TIMEOUT_TCP u32, _TCP_FIN u32, _UDP u32. */
std::expected<protocol::reply::IpvsTimeouts, std::string> DecodeTimeouts(
    std::span<const std::uint8_t> attributes);

/** IPVS_CMD_SET_INFO: IPVS_INFO_ATTR_VERSION u32, _CONN_TAB_SIZE u32. */
std::expected<protocol::reply::IpvsInfo, std::string> DecodeInfo(
    std::span<const std::uint8_t> attributes);

}  // namespace fairlead::ipvs

#endif  // FAIRLEAD_IPVS_DECODE_H_
