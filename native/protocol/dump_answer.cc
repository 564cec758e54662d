#include "protocol/dump_answer.h"

#include <cerrno>
#include <utility>

#include "protocol/ops.gen.h"

namespace fairlead::protocol {

ByteBuffer EndDump(const wire::DumpEnd& end, RecordWriter out) {
  reply::Dumped dumped;
  dumped.interrupted = end.interrupted ? 1 : 0;
  dumped.overrun = end.overrun ? 1 : 0;
  dumped.error = static_cast<std::uint32_t>(end.error);
  dumped.message = end.words;
  out.Append(dumped);
  return std::move(out.buffer());
}

std::expected<ByteBuffer, SystemError> AnswerDump(wire::Socket& socket,
                                                  const wire::MessageWriter& request,
                                                  const TakeRecords& take) {
  RecordWriter out;
  const auto end =
      wire::Ask(socket, request, [&](const wire::Message& message) { return take(message, out); });
  if (!end) return std::unexpected(end.error());
  return EndDump(*end, std::move(out));
}

ByteBuffer RefuseDump(const BadRecord& error) {
  return EndDump({.error = EINVAL, .words = Words(error)}, {});
}

}  // namespace fairlead::protocol
