#include "bpf/bpf_family.h"

#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <utility>

#include "bpf/attached.h"
#include "bpf/elements.h"
#include "bpf/installation.h"
#include "protocol/dump_answer.h"
#include "protocol/one_of.h"

namespace fairlead::bpf {

namespace {

namespace op = protocol::op;
namespace reply = protocol::reply;
namespace request = protocol::request;
using protocol::kUnknownIndex;
using protocol::RecordWriter;

std::expected<Place, SystemError> ReadPlace(std::string_view directory, std::uint8_t family) {
  if (family != AF_INET && family != AF_INET6) {
    return std::unexpected(SystemError{EINVAL, "family is neither AF_INET nor AF_INET6"});
  }
  if (!directory.starts_with('/')) {
    return std::unexpected(SystemError{EINVAL, "directory is not an absolute path"});
  }
  return Place{std::string(directory), family};
}

template <typename R>
Reach ReachOf(const R& record) {
  return {std::string(record.cgroup), record.all != 0, record.counts != 0,
          record.excludes != 0};
}

template <typename R>
Room RoomOf(const R& record) {
  return {record.frontends_max, record.endpoints_max};
}

std::expected<void, Refused> Whole(const Done& done) {
  if (done) return {};
  return std::unexpected(Refused{std::nullopt, done.error()});
}

/** Calls `work` with the folder and family of a record. */
template <typename R, typename Work>
std::expected<void, Refused> At(const R& record, const Work& work) {
  const auto place = ReadPlace(record.directory, record.family);
  return Whole(place ? work(*place) : Done(std::unexpected(place.error())));
}

struct Doer {
  std::expected<void, Refused> operator()(const op::BpfMapsAdd& op) const {
    return At(op, [&](const Place& place) { return AddMaps(place, RoomOf(op)); });
  }
  std::expected<void, Refused> operator()(const op::BpfElementsAdd& op) const {
    return AddElements({op.directory, op.map}, op.keys, op.values);
  }
  std::expected<void, Refused> operator()(const op::BpfElementsDelete& op) const {
    return RemoveElements({op.directory, op.map}, op.keys);
  }
  std::expected<void, Refused> operator()(const op::BpfLinksAdd& op) const {
    return At(op, [&](const Place& place) { return AddLinks(place, ReachOf(op)); });
  }
  std::expected<void, Refused> operator()(const op::BpfLeaseExtend& op) const {
    return At(op, [&](const Place& place) {
      return ExtendLease(place, op.milliseconds, op.only_valid != 0);
    });
  }
  std::expected<void, Refused> operator()(const op::BpfRemove& op) const { return At(op, Remove); }
  std::expected<void, Refused> operator()(const op::BpfDetach& op) const {
    return Whole(Detach(op.link, op.program));
  }
};

struct Answerer {
  RecordWriter& out;

  Done operator()(const request::BpfStateGet& request) const {
    const auto place = ReadPlace(request.directory, request.family);
    if (!place) return std::unexpected(place.error());
    const auto states = StateOf(*place, RoomOf(request), ReachOf(request));
    if (!states) return std::unexpected(states.error());
    out.Append(reply::BpfState{static_cast<std::uint8_t>(states->maps),
                               static_cast<std::uint8_t>(states->links)});
    return {};
  }
  Done operator()(const request::BpfElementsDump& request) const {
    return DumpElements({request.directory, request.map}, out);
  }
  Done operator()(const request::BpfElementsCount& request) const {
    const auto elements = CountElements({request.directory, request.map});
    if (!elements) return std::unexpected(elements.error());
    out.Append(reply::BpfCount{*elements});
    return {};
  }
  Done operator()(const request::BpfProbe& request) const {
    const auto place = ReadPlace(request.directory, request.family);
    if (!place) return std::unexpected(place.error());
    return Probe(*place, RoomOf(request), ReachOf(request));
  }
  Done operator()(const request::BpfAttachedGet& request) const {
    const auto all = FindAttached(std::string(request.directory), std::string(request.cgroup));
    if (!all) return std::unexpected(all.error());
    for (const Attached& one : *all) {
      out.Append(reply::BpfAttached{one.link, one.program, one.name, one.attach_type,
                                    std::uint8_t{one.is_pinned}});
    }
    return {};
  }
};

ByteBuffer Answer(std::span<const std::uint8_t> buffer) {
  const auto request = protocol::ReadRequest<Request>(buffer);
  if (!request) return protocol::RefuseDump(request.error());
  RecordWriter out;
  const Done done = std::visit(Answerer{out}, *request);
  reply::Dumped end;
  const std::string words = done ? "" : done.error().Text();
  end.error = done ? 0 : static_cast<std::uint32_t>(done.error().error);
  end.message = words;
  out.Append(end);
  return std::move(out.buffer());
}

void WriteFailure(std::uint32_t index, const Refused& refused, RecordWriter& out) {
  const std::string words = refused.error.Text();
  out.Append(reply::Failed{index, refused.entry.value_or(kUnknownIndex),
                           static_cast<std::uint32_t>(refused.error.error), words});
}

ByteBuffer DoAll(std::span<const std::uint8_t> buffer, std::uint32_t first_op) {
  RecordWriter out;
  std::uint32_t taken = 0;
  protocol::RecordReader reader(buffer);
  for (std::uint32_t index = first_op; !reader.AtEnd(); ++index) {
    const auto record = reader.Next();
    const auto op = record ? protocol::ReadOneOf<Op>(*record, "op")
                           : std::expected<Op, protocol::BadRecord>(
                                 std::unexpected(record.error()));
    const auto done =
        op ? std::visit(Doer(), *op)
           : std::expected<void, Refused>(
                 std::unexpected(Refused{std::nullopt, {EINVAL, Words(op.error())}}));
    if (!done) WriteFailure(index, done.error(), out);
    // The elements before the refused one were written.
    if (done || done.error().entry.value_or(0) > 0) ++taken;
  }
  out.Append(reply::Attempted{taken});
  return std::move(out.buffer());
}

}  // namespace

bool BpfFamily::Handles(std::uint32_t code) const noexcept {
  return protocol::IsOneOf<Op>(code) || protocol::IsOneOf<Request>(code);
}

std::expected<ByteBuffer, SystemError> BpfFamily::Run(std::span<const std::uint8_t> buffer,
                                                      std::uint32_t first_op) {
  const auto first = protocol::RecordReader(buffer).Next();
  const bool asks = first && protocol::IsOneOf<Request>(first->code);
  return asks ? Answer(buffer) : DoAll(buffer, first_op);
}

}  // namespace fairlead::bpf
