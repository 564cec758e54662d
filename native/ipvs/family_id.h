// Asks for the number that the running kernel gave the generic netlink family IPVS.
#ifndef FAIRLEAD_IPVS_FAMILY_ID_H_
#define FAIRLEAD_IPVS_FAMILY_ID_H_

#include <cstdint>
#include <expected>
#include <span>
#include <string>

#include "base/system_error.h"
#include "wire/message_writer.h"
#include "wire/socket.h"

namespace fairlead::ipvs {

/** CTRL_CMD_GETFAMILY { CTRL_ATTR_FAMILY_NAME "IPVS" }. Its acknowledgement ends the answer. */
wire::MessageWriter EncodeFamilyRequest(std::uint32_t sequence);

/** CTRL_ATTR_FAMILY_ID of the answer; 0 when it has none. `payload`: the bytes after nlmsghdr. */
std::uint16_t DecodeFamilyId(std::span<const std::uint8_t> payload) noexcept;

struct FamilyId {
  /** 0 = unknown, see `error`. */
  std::uint16_t id = 0;
  /** EPROTONOSUPPORT when the kernel has no IPVS. */
  int error = 0;
  std::string words;
};

/**
 * Asks the kernel for the number. Since 5.13 this loads the module ip_vs if the kernel has it
 * (ctrl_getfamily, MODULE_ALIAS_GENL_FAMILY).
 */
std::expected<FamilyId, SystemError> ResolveFamily(wire::Socket& socket);

}  // namespace fairlead::ipvs

#endif  // FAIRLEAD_IPVS_FAMILY_ID_H_
