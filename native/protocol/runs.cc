#include "protocol/runs.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "protocol/ops.gen.h"

namespace fairlead::protocol {

namespace {

ByteBuffer FailedReply(std::uint32_t op, int error, const std::string& words) {
  RecordWriter out;
  out.Append(reply::Failed{op, kUnknownIndex, static_cast<std::uint32_t>(error), words});
  return std::move(out.buffer());
}

Family* FamilyOf(const Families& families, std::uint32_t code) noexcept {
  for (const auto& family : families) {
    if (family->Handles(code)) return family.get();
  }
  return nullptr;
}

struct Run {
  std::span<const std::uint8_t> records;
  std::uint32_t count = 0;
};

/** The records at the start of `buffer` that are for `family`. The first one is. */
Run TakeRun(const Families& families, const Family* family, std::span<const std::uint8_t> buffer) {
  RecordReader reader(buffer);
  Run run;
  while (!reader.AtEnd()) {
    const auto record = reader.Next();
    if (!record) return {buffer, run.count + 1};
    if (!family->Handles(record->code) && FamilyOf(families, record->code) != nullptr) break;
    const std::uint8_t* end = record->payload.data() + record->payload.size();
    run.records = {buffer.data(), end};
    ++run.count;
  }
  return run;
}

bool HasFailure(const ByteBuffer& answer) noexcept {
  RecordReader reader(answer.bytes());
  while (!reader.AtEnd()) {
    const auto record = reader.Next();
    if (!record) break;
    if (record->code == reply::Failed::kCode) return true;
  }
  return false;
}

void Append(ByteBuffer& to, const ByteBuffer& from) noexcept {
  if (from.size() == 0) return;
  std::memcpy(to.Extend(from.size()), from.bytes().data(), from.size());
}

}  // namespace

std::expected<ByteBuffer, SystemError> RunInOrder(const Families& families,
                                                  std::span<const std::uint8_t> buffer) {
  if (buffer.empty()) {
    return FailedReply(0, EINVAL, "record.header is missing: the buffer is empty");
  }
  ByteBuffer answers;
  for (std::uint32_t done = 0; !buffer.empty();) {
    const auto first = RecordReader(buffer).Next();
    if (!first) return FailedReply(0, EINVAL, "the first record is truncated");
    Family* family = FamilyOf(families, first->code);
    if (family == nullptr) return FailedReply(0, EINVAL, "record.code is not one of the schema");
    const Run run = TakeRun(families, family, buffer);
    auto answer = family->Run(run.records, done);
    // Most buffers are for one family. Their answer needs no copy.
    if (done == 0 && run.records.size() == buffer.size()) return answer;
    if (!answer) {
      if (done == 0) return answer;
      const SystemError& error = answer.error();
      answer = FailedReply(kUnknownIndex, error.error, error.Text());
    }
    Append(answers, *answer);
    if (HasFailure(*answer)) break;
    done += run.count;
    buffer = buffer.subspan(run.records.size());
  }
  return answers;
}

}  // namespace fairlead::protocol
