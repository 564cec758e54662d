#include "route/link.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include <cerrno>

#include "route/message.h"
#include "wire/byte_order.h"
#include "wire/dump_reader.h"

namespace fairlead::route {

std::expected<Link, std::string> DecodeLink(const wire::Message& message) {
  if (message.type != RTM_NEWLINK || message.payload.size() < sizeof(ifinfomsg)) {
    return std::unexpected("the kernel sent no link");
  }
  const std::uint8_t* header = message.payload.data();
  const wire::AttrTable<IFLA_LINK_NETNSID> attributes(message.payload.subspan(sizeof(ifinfomsg)));
  const wire::AttrTable<IFLA_INFO_KIND> info(attributes.Bytes(IFLA_LINKINFO));
  if (attributes.malformed() || info.malformed() || !attributes.Has(IFLA_IFNAME)) {
    return std::unexpected("a link has no name");
  }
  return Link{wire::LoadHost<std::uint32_t>(header + offsetof(ifinfomsg, ifi_index)),
              wire::LoadHost<std::uint32_t>(header + offsetof(ifinfomsg, ifi_flags)),
              attributes.String(IFLA_IFNAME),
              info.String(IFLA_INFO_KIND),
              attributes.U32Host(IFLA_MASTER),
              attributes.Has(IFLA_LINK_NETNSID)};
}

std::expected<LinkIndex, SystemError> ResolveLink(wire::Socket& socket, std::string_view name) {
  LinkIndex found;
  const auto take = [&](const wire::Message& message) -> wire::Taken {
    const auto link = DecodeLink(message);
    if (!link) return std::unexpected(link.error());
    found.index = link->index;
    return {};
  };
  const auto end = wire::Ask(socket, EncodeLinkGet(name, socket.next_sequence()), take);
  if (!end) return std::unexpected(end.error());
  if (end->error == 0 && found.index != 0) return found;
  return LinkIndex{0, end->error == 0 ? ENODEV : end->error, end->words};
}

}  // namespace fairlead::route
