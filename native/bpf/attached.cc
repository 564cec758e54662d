#include "bpf/attached.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "bpf/installation.h"
#include "bpf/netns_cookie.h"

namespace fairlead::bpf {

namespace {

using Failure = std::unexpected<SystemError>;

/** The attach types whose programs may change an address. Old kernels refuse the newer ones. */
constexpr bpf_attach_type kAttachTypes[] = {
    BPF_CGROUP_INET4_CONNECT,     BPF_CGROUP_INET6_CONNECT,     BPF_CGROUP_INET4_GETPEERNAME,
    BPF_CGROUP_INET6_GETPEERNAME, BPF_CGROUP_INET4_GETSOCKNAME, BPF_CGROUP_INET6_GETSOCKNAME,
    BPF_CGROUP_UDP4_SENDMSG,      BPF_CGROUP_UDP6_SENDMSG,      BPF_CGROUP_UDP4_RECVMSG,
    BPF_CGROUP_UDP6_RECVMSG,
};

/** The program's name without the last digit, which is the family's. */
std::string_view Stem(std::string_view name) noexcept {
  return name.ends_with('4') || name.ends_with('6') ? name.substr(0, name.size() - 1) : "";
}

/** More maps than any version has. */
constexpr std::uint32_t kSettingsMost = 4096;

/** The first field of `settings`, in every version. */
std::expected<std::uint64_t, SystemError> NodeOf(int settings, std::uint32_t value_bytes) {
  std::uint64_t node = 0;
  if (value_bytes < sizeof(node) || value_bytes > kSettingsMost) {
    return Failure(SystemError{EINVAL, "settings have no known length"});
  }
  std::vector<std::uint8_t> value(value_bytes);
  const std::uint32_t zero = 0;
  const Done read = LookUp(settings, &zero, value.data());
  if (!read) return Failure(read.error());
  std::memcpy(&node, value.data(), sizeof(node));
  return node;
}

/** Whether its maps include Fairlead's settings for this network namespace. */
bool HasOwnSettings(const ProgramFacts& program, std::uint64_t own_node) {
  bool has_settings = false;
  bool has_others = false;
  for (const std::uint32_t id : program.maps) {
    const auto map = OpenById(Kind::kMap, id);
    const auto info = map ? MapInfo(map->get()) : Failure(map.error());
    if (!info) continue;
    const std::string_view stem = Stem({info->name, strnlen(info->name, sizeof(info->name))});
    has_others = has_others || stem == "frontends" || stem == "peers";
    if (stem != "settings") continue;
    const auto node = NodeOf(map->get(), info->value_size);
    // Kernels before 5.14 have no cookies.
    has_settings = node && (*node == own_node || *node == 0);
  }
  return has_settings && has_others;
}

/** The links that are pinned in the folder. */
std::vector<bpf_link_info> PinnedLinks(const std::string& directory) {
  std::vector<bpf_link_info> pinned;
  for (const std::uint8_t family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
    for (const Program& program : ProgramsOf(family)) {
      const auto link = OpenPin(directory + "/" + program.name);
      const auto info = link ? LinkInfo(link->get()) : Failure(link.error());
      if (info && info->type == BPF_LINK_TYPE_CGROUP) pinned.push_back(*info);
    }
  }
  return pinned;
}

struct Candidate {
  Attached attached;
  ProgramFacts facts;
};

/** Nothing: the link has gone, is being made, or has no program of this kind. */
std::expected<std::optional<Candidate>, SystemError> Look(std::uint32_t id) {
  const auto link = OpenById(Kind::kLink, id);
  if (!link) {
    // EAGAIN: another process is attaching a program (bpf_link_by_id).
    const bool is_none = link.error().error == ENOENT || link.error().error == EAGAIN;
    if (is_none) return std::nullopt;
    return Failure(link.error());
  }
  const auto info = LinkInfo(link->get());
  // A link that is detached has no cgroup.
  if (!info || info->type != BPF_LINK_TYPE_CGROUP || info->cgroup.cgroup_id == 0) {
    return std::nullopt;
  }
  const auto program = OpenById(Kind::kProgram, info->prog_id);
  auto facts = program ? ProgramInfo(program->get()) : Failure(program.error());
  if (!facts || facts->type != BPF_PROG_TYPE_CGROUP_SOCK_ADDR) return std::nullopt;
  return Candidate{{id, info->prog_id, facts->name, info->cgroup.attach_type}, std::move(*facts)};
}

/** Links of the machine that have programs of this kind. */
std::expected<std::vector<Candidate>, SystemError> AllLinks() {
  std::vector<Candidate> all;
  for (std::uint32_t id = 0;;) {
    const auto next = NextLink(id);
    if (!next && next.error().error == ENOENT) return all;
    if (!next) return Failure(next.error());
    if (*next <= id) return Failure(SystemError{EPROTO, "listing links: ids do not grow"});
    id = *next;
    auto found = Look(id);
    if (!found) return Failure(found.error());
    if (*found) all.push_back(std::move(**found));
  }
}

/**
 * Fairlead's programs are those with settings for this network namespace, and those that use only
 * maps of these, such as the programs at getpeername.
 */
std::expected<std::vector<Attached>, SystemError> OurLinks() {
  const auto all = AllLinks();
  if (!all) return Failure(all.error());
  const std::uint64_t own_node = NetnsCookie().value_or(0);
  std::set<std::uint32_t> maps;
  for (const Candidate& one : *all) {
    if (!HasOwnSettings(one.facts, own_node)) continue;
    maps.insert(one.facts.maps.begin(), one.facts.maps.end());
  }
  std::vector<Attached> ours;
  for (const Candidate& one : *all) {
    const auto& used = one.facts.maps;
    const auto is_known = [&](std::uint32_t id) { return maps.contains(id); };
    if (!used.empty() && std::ranges::all_of(used, is_known)) ours.push_back(one.attached);
  }
  return ours;
}

/** Knows only the ids: without CAP_SYS_ADMIN nothing else can be read. */
std::expected<std::vector<Attached>, SystemError> Met(const std::string& cgroup) {
  const FileDescriptor folder(open(cgroup.c_str(), O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return Failure(SystemError::Last("opening a folder of cgroup2"));
  std::vector<Attached> all;
  for (const bpf_attach_type type : kAttachTypes) {
    const auto ids = EffectivePrograms(folder.get(), type);
    if (!ids && ids.error().error == EINVAL) continue;
    if (!ids) return Failure(ids.error());
    for (const std::uint32_t id : *ids) all.push_back({0, id, "", type});
  }
  return all;
}

}  // namespace

std::expected<std::vector<Attached>, SystemError> FindAttached(const std::string& directory,
                                                               const std::string& cgroup) {
  auto found = OurLinks();
  if (!found && found.error().error == EPERM && !cgroup.empty()) found = Met(cgroup);
  if (!found) return found;
  const auto pinned = PinnedLinks(directory);
  for (Attached& one : *found) {
    one.is_pinned = std::any_of(pinned.begin(), pinned.end(), [&](const bpf_link_info& link) {
      return one.link == 0 ? link.prog_id == one.program : link.id == one.link;
    });
  }
  return found;
}

Done Detach(std::uint32_t link, std::uint32_t program) {
  const auto opened = OpenById(Kind::kLink, link);
  if (!opened && opened.error().error == ENOENT) return {};
  if (!opened) return Failure(opened.error());
  const auto info = LinkInfo(opened->get());
  if (!info) return Failure(info.error());
  // The kernel may have given the id to another link.
  if (info->prog_id != program) return {};
  return DetachLink(opened->get());
}

}  // namespace fairlead::bpf
