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
  const std::uint32_t sequence = socket.next_sequence();
  socket.SkipSequences(1);
  const auto sent = socket.Send(EncodeFamilyRequest(sequence).bytes());
  if (!sent) return std::unexpected(sent.error());
  FamilyId family;
  wire::DumpReader reader(sequence, [&](const wire::Message& message) {
    family.id = DecodeFamilyId(message.payload);
    return std::expected<void, std::string>();
  });
  const auto complete = wire::ReceiveDump(socket, reader);
  if (!complete) return std::unexpected(complete.error());
  const wire::DumpEnd end = reader.Finish();
  if (end.error == ENOENT) {
    family.error = EPROTONOSUPPORT;
    family.words = "the kernel has no IPVS, and no module ip_vs to load";
  } else if (end.error != 0 || family.id == 0) {
    family.error = end.error != 0 ? end.error : EPROTO;
    family.words = end.error != 0 ? end.words : "the kernel did not tell the number of IPVS";
    family.id = 0;
  }
  return family;
}

}  // namespace fairlead::ipvs
