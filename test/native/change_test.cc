// The kernel's notifications about changes of nf_tables.
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <cstring>

#include "check.h"
#include "nft/batch_writer.h"
#include "nft/change_reader.h"
#include "wire/message_writer.h"

namespace fairlead::test {

namespace {

constexpr std::uint32_t kOwnPort = 77;
constexpr std::uint32_t kOtherPort = 78;

/** One message; `name` is that of the table, or of the program that committed. */
Bytes Message(int type, std::uint32_t port, const char* name, std::uint8_t family = 2) {
  wire::MessageWriter out;
  wire::BeginNfnetlink(out, nft::MessageType(type), 0, family, 1);
  if (type == NFT_MSG_NEWGEN) {
    out.PutU32Be(NFTA_GEN_ID, 5);
    out.PutU32Be(NFTA_GEN_PROC_PID, 4711);
    out.PutString(NFTA_GEN_PROC_NAME, name);
  } else {
    out.PutString(NFTA_RULE_TABLE, name);
  }
  out.EndMessage();
  Bytes bytes(out.bytes().begin(), out.bytes().end());
  std::memcpy(bytes.data() + 12, &port, sizeof(port));
  return bytes;
}

nft::ChangeReader Reader() { return nft::ChangeReader({{2, "t"}, {10, "t"}}); }

}  // namespace

TEST("a change of a watched table is told when its transaction ends, with who made it") {
  nft::ChangeReader reader = Reader();
  reader.Take(Message(NFT_MSG_DELRULE, kOtherPort, "t"), kOwnPort);
  CHECK(!reader.TakeChanged());
  reader.Take(Message(NFT_MSG_NEWGEN, kOtherPort, "nft"), kOwnPort);
  CHECK(reader.TakeChanged());
  CHECK(!reader.TakeChanged());
  CHECK_EQUAL(reader.committer().program, "nft");
  CHECK_EQUAL(reader.committer().pid, 4711U);
}

TEST("changes of other tables, of tables of that name in other families, and ours are not told") {
  nft::ChangeReader reader = Reader();
  reader.Take(Message(NFT_MSG_NEWSETELEM, kOtherPort, "u"), kOwnPort);
  reader.Take(Message(NFT_MSG_NEWSET, kOtherPort, "t", 1), kOwnPort);
  reader.Take(Message(NFT_MSG_NEWGEN, kOtherPort, "nft"), kOwnPort);
  reader.Take(Message(NFT_MSG_NEWRULE, kOwnPort, "t"), kOwnPort);
  reader.Take(Message(NFT_MSG_NEWGEN, kOwnPort, "fairlead"), kOwnPort);
  CHECK(!reader.TakeChanged());
}

TEST("all that is in a table counts, and the table itself") {
  for (const int type : {NFT_MSG_NEWTABLE, NFT_MSG_DELTABLE, NFT_MSG_NEWCHAIN, NFT_MSG_DELCHAIN,
                         NFT_MSG_NEWRULE, NFT_MSG_NEWSET, NFT_MSG_DELSET, NFT_MSG_NEWSETELEM,
                         NFT_MSG_DELSETELEM, NFT_MSG_NEWOBJ, NFT_MSG_NEWFLOWTABLE}) {
    nft::ChangeReader reader = Reader();
    reader.Take(Message(type, kOtherPort, "t", 10), 0);
    reader.Take(Message(NFT_MSG_NEWGEN, kOtherPort, "nft"), 0);
    CHECK(reader.TakeChanged());
  }
}

TEST("of a table with names of chains, only those chains and their rules count, and the rest") {
  const auto is_reported = [](int type, std::uint16_t attribute, const char* chain) {
    nft::ChangeReader reader({{2, "nat", {"KUBE-SVC-", "OUTPUT"}}});
    wire::MessageWriter out;
    wire::BeginNfnetlink(out, nft::MessageType(type), 0, 2, 1);
    out.PutString(NFTA_RULE_TABLE, "nat");
    out.PutString(attribute, chain);
    out.EndMessage();
    reader.Take(Bytes(out.bytes().begin(), out.bytes().end()), 0);
    reader.Take(Message(NFT_MSG_NEWGEN, kOtherPort, "iptables"), 0);
    return reader.TakeChanged();
  };
  for (const int type : {NFT_MSG_NEWRULE, NFT_MSG_DELRULE}) {
    CHECK(is_reported(type, NFTA_RULE_CHAIN, "KUBE-SVC-AAAA"));
    CHECK(is_reported(type, NFTA_RULE_CHAIN, "OUTPUT"));
    CHECK(!is_reported(type, NFTA_RULE_CHAIN, "CNI-HOSTPORT-DNAT"));
  }
  for (const int type : {NFT_MSG_NEWCHAIN, NFT_MSG_DELCHAIN}) {
    CHECK(is_reported(type, NFTA_CHAIN_NAME, "KUBE-SVC-AAAA"));
    CHECK(!is_reported(type, NFTA_CHAIN_NAME, "DOCKER"));
  }
  CHECK(is_reported(NFT_MSG_DELTABLE, NFTA_CHAIN_NAME, "DOCKER"));
}

TEST("lost messages count as a change that nobody is known for") {
  nft::ChangeReader reader = Reader();
  reader.Take(Message(NFT_MSG_NEWRULE, kOtherPort, "t"), 0);
  reader.TakeOverrun();
  CHECK(reader.TakeChanged());
  CHECK_EQUAL(reader.committer().program, "");
  reader.Take(Message(NFT_MSG_NEWGEN, kOtherPort, "someone else"), 0);
  CHECK(!reader.TakeChanged());
}

TEST("damaged messages do no harm") {
  const Bytes whole = Message(NFT_MSG_NEWGEN, kOtherPort, "nft");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    nft::ChangeReader reader = Reader();
    reader.Take(std::span(whole).first(length), 0);
    CHECK(!reader.TakeChanged());
  }
}

}  // namespace fairlead::test
