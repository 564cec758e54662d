// Runs ops that are not a transaction: each is tried, even when others fail.
#ifndef FAIRLEAD_PROTOCOL_ATTEMPT_H_
#define FAIRLEAD_PROTOCOL_ATTEMPT_H_

#include <cstdint>
#include <expected>
#include <functional>
#include <span>

#include "base/byte_buffer.h"
#include "base/system_error.h"
#include "protocol/one_of.h"
#include "protocol/ops.gen.h"
#include "wire/pipeline.h"

namespace fairlead::protocol {

/** Writes the messages of op number `index` to the pipeline. */
using AttemptOp =
    std::function<Checked(const Record& record, std::uint32_t index, wire::Pipeline& pipeline)>;

/**
 * Tries each op of the buffer; the first has the index `first_op`. The answer holds a record
 * `failed` for each failure, and a record `attempted`. A SystemError means that nothing was sent. A
 * system call that fails later becomes a record `failed` without an op.
 */
std::expected<ByteBuffer, SystemError> AttemptAll(std::span<const std::uint8_t> ops,
                                                  std::uint32_t first_op, wire::Socket& socket,
                                                  const AttemptOp& attempt);

/**
 * Tries an op that is one message. The op has one of the types of the variant Op. `encode` takes
 * the op, the sequence number of the message, and the writer. On failure AttemptAll drops what
 * `encode` has written.
 */
template <typename Op, typename Encode>
Checked AttemptMessage(const Record& record, std::uint32_t index, wire::Pipeline& pipeline,
                       const Encode& encode) {
  const auto op = ReadOneOf<Op>(record, "op");
  if (!op) return std::unexpected(op.error());
  const Checked encoded = std::visit(
      [&](const auto& each) { return encode(each, pipeline.sequence(), pipeline.out()); }, *op);
  if (encoded) pipeline.Commit({index, kUnknownIndex});
  return encoded;
}

/** AttemptAll for buffers that hold such ops only. */
template <typename Op, typename Encode>
std::expected<ByteBuffer, SystemError> AttemptMessages(std::span<const std::uint8_t> ops,
                                                       std::uint32_t first_op, wire::Socket& socket,
                                                       const Encode& encode) {
  return AttemptAll(ops, first_op, socket,
                    [&](const Record& record, std::uint32_t index, wire::Pipeline& pipeline) {
                      return AttemptMessage<Op>(record, index, pipeline, encode);
                    });
}

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_ATTEMPT_H_
