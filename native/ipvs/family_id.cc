#include "ipvs/family_id.h"

#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <linux/netlink.h>

#include <array>
#include <cerrno>

#include "wire/attr_reader.h"
#include "wire/dump_reader.h"

namespace fairlead::ipvs {

wire::MessageWriter EncodeFamilyRequest(std::uint32_t sequence) {
  wire::MessageWriter out;
  out.BeginMessage(GENL_ID_CTRL, NLM_F_REQUEST | NLM_F_ACK, sequence);
  const std::array<std::uint8_t, GENL_HDRLEN> header = {CTRL_CMD_GETFAMILY, 1};
  out.PutFamilyHeader(header);
  out.PutString(CTRL_ATTR_FAMILY_NAME, IPVS_GENL_NAME);
  out.EndMessage();
  return out;
}

std::uint16_t DecodeFamilyId(std::span<const std::uint8_t> payload) noexcept {
  if (payload.size() < GENL_HDRLEN) return 0;
  const wire::AttrTable<CTRL_ATTR_FAMILY_ID> family(payload.subspan(GENL_HDRLEN));
  return family.U16Host(CTRL_ATTR_FAMILY_ID);
}

std::expected<FamilyId, SystemError> ResolveFamily(wire::Socket& socket) {
  FamilyId family;
  const auto take = [&](const wire::Message& message) {
    family.id = DecodeFamilyId(message.payload);
    return wire::Taken();
  };
  const auto end = wire::Ask(socket, EncodeFamilyRequest(socket.next_sequence()), take);
  if (!end) return std::unexpected(end.error());
  if (end->error == ENOENT) {
    family.error = EPROTONOSUPPORT;
    family.words = "the kernel has no IPVS, and no module ip_vs to load";
  } else if (end->error != 0 || family.id == 0) {
    family.error = end->error != 0 ? end->error : EPROTO;
    family.words = end->error != 0 ? end->words : "the kernel did not report the family id of IPVS";
    family.id = 0;
  }
  return family;
}

}  // namespace fairlead::ipvs
