// Buffers of several families: native/protocol/runs.
#include "protocol/runs.h"

#include <cerrno>
#include <string>
#include <vector>

#include "acct/acct_family.h"
#include "bpf/bpf_family.h"
#include "check.h"
#include "conntrack/conntrack_family.h"
#include "ipset/ipset_family.h"
#include "legacy/legacy_family.h"
#include "nft/nft_family.h"
#include "protocol/ops.gen.h"
#include "route/route_family.h"

namespace fairlead::test {

namespace op = protocol::op;
namespace reply = protocol::reply;
using protocol::RecordWriter;

namespace {

/** Takes one code; fails, or breaks, if configured. */
class OneCode : public protocol::Family {
 public:
  enum class Fate { kDone, kFailed, kBroken };

  OneCode(std::uint32_t code, std::vector<std::string>& log, Fate fate = Fate::kDone)
      : code_(code), log_(log), fate_(fate) {}

  bool Handles(std::uint32_t code) const noexcept override { return code == code_; }

  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer,
                                             std::uint32_t first_op) override {
    log_.push_back(std::to_string(code_) + ": " + std::to_string(buffer.size()));
    if (fate_ == Fate::kBroken) return std::unexpected(SystemError{EIO, "send"});
    RecordWriter out;
    if (fate_ == Fate::kFailed) {
      out.Append(reply::Failed{first_op + 1, protocol::kUnknownIndex, ENOENT, "no"});
      out.Append(reply::Failed{protocol::kUnknownIndex, protocol::kUnknownIndex, ENOBUFS, "lost"});
    } else {
      out.Append(reply::Attempted{static_cast<std::uint32_t>(buffer.size())});
    }
    return std::move(out.buffer());
  }

 private:
  std::uint32_t code_;
  std::vector<std::string>& log_;
  Fate fate_;
};

using Fate = OneCode::Fate;

constexpr std::uint32_t kLink = op::LinkDelete::kCode;
constexpr std::uint32_t kTimeouts = op::IpvsTimeoutsSet::kCode;
constexpr std::uint32_t kTable = op::TableDelete::kCode;

const op::LinkDelete kLinkGone{"lo"};     // 16 bytes
const op::IpvsTimeoutsSet kSet{1, 2, 3};  // 20 bytes
const op::TableDelete kDelete{2, "t"};    // 20 bytes

struct World {
  std::vector<std::string> log;
  protocol::Families families;

  explicit World(Fate timeouts = Fate::kDone, Fate link = Fate::kDone) {
    families.push_back(std::make_unique<OneCode>(kLink, log, link));
    families.push_back(std::make_unique<OneCode>(kTimeouts, log, timeouts));
    families.push_back(std::make_unique<OneCode>(kTable, log));
  }

  std::string Log() const {
    std::string all;
    for (const std::string& line : log) all += line + "; ";
    return all;
  }
};

template <typename... Records>
Bytes Buffer(const Records&... records) {
  RecordWriter out;
  (out.Append(records), ...);
  return Bytes(out.bytes().begin(), out.bytes().end());
}

/** The answer as text. */
std::string Answer(const World& world, std::span<const std::uint8_t> buffer) {
  const auto answer = protocol::RunInOrder(world.families, buffer);
  if (!answer) return "broken: " + answer.error().call;
  std::string text;
  protocol::RecordReader reader(answer->bytes());
  while (!reader.AtEnd()) {
    const auto record = reader.Next();
    if (const auto done = protocol::Read<reply::Attempted>(record->payload);
        done && record->code == reply::Attempted::kCode) {
      text += "done " + std::to_string(done->taken) + "; ";
    } else if (const auto failed = protocol::Read<reply::Failed>(record->payload)) {
      const bool known = failed->op != protocol::kUnknownIndex;
      text += "failed " + (known ? std::to_string(failed->op) : std::string("?")) + " " +
              std::string(failed->message) + "; ";
    }
  }
  return text;
}

}  // namespace

TEST("consecutive records of a family are one run, and runs go in the order of the buffer") {
  World world;
  const Bytes buffer = Buffer(kLinkGone, kLinkGone, kSet, kDelete, kDelete, kLinkGone);
  CHECK_EQUAL(Answer(world, buffer), "done 32; done 20; done 40; done 16; ");
  CHECK_EQUAL(world.Log(), "50: 32; 38: 20; 3: 40; 50: 16; ");
}

TEST("a run with a failure is the last, and its ops count from the start of the buffer") {
  World world(Fate::kFailed);
  CHECK_EQUAL(Answer(world, Buffer(kLinkGone, kLinkGone, kLinkGone, kSet, kSet, kDelete)),
              "done 48; failed 4 no; failed ? lost; ");
  CHECK_EQUAL(world.Log(), "50: 48; 38: 40; ");
}

/** Of each kind of record that names an op, an answer to the second op of the run. */
class NamesOps : public protocol::Family {
 public:
  bool Handles(std::uint32_t code) const noexcept override { return code == kTable; }

  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t>,
                                             std::uint32_t first_op) override {
    RecordWriter out;
    out.Append(reply::RuleHandle{first_op + 1, 7});
    out.Append(reply::RuleGone{first_op + 1, 5, {}});
    return std::move(out.buffer());
  }
};

TEST(
    "handles and counters of rules name ops from the start of the buffer, whatever is before "
    "them") {
  World world;
  world.families.pop_back();
  world.families.push_back(std::make_unique<NamesOps>());
  const Bytes mixed = Buffer(kLinkGone, kSet, kSet, kDelete, kDelete);
  const auto answer = protocol::RunInOrder(world.families, mixed);
  std::string ops;
  protocol::RecordReader reader(answer->bytes());
  while (!reader.AtEnd()) {
    const auto record = reader.Next();
    if (record->code == reply::RuleHandle::kCode) {
      ops += "handle " + std::to_string(protocol::Read<reply::RuleHandle>(record->payload)->op);
    } else if (record->code == reply::RuleGone::kCode) {
      ops += ", gone " + std::to_string(protocol::Read<reply::RuleGone>(record->payload)->op);
    }
  }
  CHECK_EQUAL(ops, "handle 4, gone 4");
}

TEST("each family counts its ops from the index that it is given") {
  // Nothing of these reaches the kernel: the records are damaged, or name what there cannot be.
  const Bytes damaged = FromHex("ffffffff");
  const auto op_of = [](protocol::Family& family, std::span<const std::uint8_t> buffer) {
    const auto answer = family.Run(buffer, 40);
    if (!answer) return std::string(answer.error().call);
    const auto record = protocol::RecordReader(answer->bytes()).Next();
    if (record->code != reply::Failed::kCode) return std::string("no failure");
    return std::to_string(protocol::Read<reply::Failed>(record->payload)->op);
  };
  legacy::LegacyFamily legacy("/dev/null");
  CHECK_EQUAL(op_of(legacy, damaged), "40");
  bpf::BpfFamily bpf;
  CHECK_EQUAL(op_of(bpf, damaged), "40");
  conntrack::ConntrackFamily conntrack;
  CHECK_EQUAL(op_of(conntrack, damaged), "40");
  nft::NftFamily nft(0);
  CHECK_EQUAL(op_of(nft, damaged), "40");
  route::RouteFamily route(0);
  CHECK_EQUAL(op_of(route, damaged), "40");
  acct::AcctFamily acct;
  CHECK_EQUAL(op_of(acct, damaged), "40");
  ipset::IpsetFamily ipset;
  CHECK_EQUAL(op_of(ipset, damaged), "40");
}

TEST("a system call that fails in the first run rejects, in a later one it is a failure") {
  World first(Fate::kDone, Fate::kBroken);
  CHECK_EQUAL(Answer(first, Buffer(kLinkGone, kSet)), "broken: send");
  World later(Fate::kBroken);
  CHECK_EQUAL(Answer(later, Buffer(kLinkGone, kSet, kDelete)),
              "done 16; failed ? send: Input/output error; ");
  CHECK_EQUAL(later.Log(), "50: 16; 38: 20; ");
}

TEST("a record that nobody knows, or a damaged one, goes to the family before it") {
  World world;
  Bytes buffer = Buffer(kSet, kLinkGone, op::ChainDelete{2, "t", "c"}, kLinkGone);
  CHECK_EQUAL(Answer(world, buffer), "done 20; done 60; ");
  Bytes damaged = Buffer(kSet, kLinkGone, kDelete);
  damaged.resize(damaged.size() - 4);
  world.log.clear();
  CHECK_EQUAL(Answer(world, damaged), "done 20; done 32; ");
}

TEST("a buffer that begins with neither is refused, and so is an empty one") {
  World world;
  CHECK_EQUAL(Answer(world, Buffer(op::ChainDelete{2, "t", "c"})),
              "failed 0 record.code is not one of the schema; ");
  CHECK_EQUAL(Answer(world, {}), "failed 0 record.header is missing: the buffer is empty; ");
  CHECK_EQUAL(Answer(world, FromHex("01000000")), "failed 0 the first record is truncated; ");
  CHECK_EQUAL(world.Log(), "");
}

}  // namespace fairlead::test
