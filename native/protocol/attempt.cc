#include "protocol/attempt.h"

#include <cerrno>
#include <string>
#include <utility>

#include "protocol/ops.gen.h"

namespace fairlead::protocol {

namespace {

void WriteFailure(const wire::Pipeline::Failure& failure, RecordWriter& out) {
  reply::Failed failed;
  failed.op = failure.origin ? failure.origin->op : kUnknownIndex;
  failed.entry = failure.origin ? failure.origin->entry : kUnknownIndex;
  failed.error = static_cast<std::uint32_t>(failure.error);
  failed.message = failure.words;
  out.Append(failed);
}

}  // namespace

std::expected<ByteBuffer, SystemError> AttemptAll(std::span<const std::uint8_t> ops,
                                                  std::uint32_t first_op, wire::Socket& socket,
                                                  const AttemptOp& attempt) {
  wire::Pipeline pipeline(socket);
  RecordReader reader(ops);
  for (std::uint32_t index = first_op; !reader.AtEnd() && !pipeline.broken(); ++index) {
    const auto record = reader.Next();
    const Checked done =
        record ? attempt(*record, index, pipeline) : Checked(std::unexpected(record.error()));
    if (!done) pipeline.Fail({index, kUnknownIndex}, EINVAL, Words(done.error()));
  }
  pipeline.Flush();
  const auto& broken = pipeline.broken();
  if (broken && !pipeline.anything_sent()) return std::unexpected(*broken);
  RecordWriter out;
  for (const auto& failure : pipeline.failures()) WriteFailure(failure, out);
  if (broken) {
    const std::string words = broken->Text();
    WriteFailure({std::nullopt, broken->error, words}, out);
  }
  out.Append(reply::Attempted{pipeline.taken()});
  return std::move(out.buffer());
}

}  // namespace fairlead::protocol
