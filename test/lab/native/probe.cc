// The part of a lab agent that Node has no sockets for: ICMP errors, SCTP, and the
// connection-tracking table. Started by agent.ts, serves until its standard input ends.
//
// Lines in:  <id> icmp
//            <id> flush-conntrack
//            <id> listen <address> <port> <name>
//            <id> open <own address or -> <own port> <address> <port> <timeout ms>
//            <id> ask <id of open> <timeout ms>
//            <id> close <id of open>
// Lines out: {"id":N, …}, one for each line in, in any order; the reply to `icmp` follows all
// errors received before it. {"icmp":{…}} for each ICMP error, when it comes.

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>

#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

#include "icmp_watch.h"
#include "sctp_raw.h"
#include "sctp_sockets.h"

namespace probe {

void Reply(uint64_t id, const std::string& fields) {
  std::printf("{\"id\":%llu%s}\n", static_cast<unsigned long long>(id), fields.c_str());
  std::fflush(stdout);
}

void ReplyErrno(uint64_t id, int error) {
  Reply(id, error == 0 ? "" : std::string(",\"errno\":\"") + strerrorname_np(error) + "\"");
}

// Deletes every entry: IPCTNL_MSG_CT_DELETE without a tuple. Returns an errno, 0 for success.
int FlushConntrack() {
  struct {
    nlmsghdr header{};
    nfgenmsg generic{};
  } request;
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  struct {
    nlmsghdr header{};
    nlmsgerr error{};
  } reply;
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
  const bool done =
      send(fd, &request, sizeof(request), 0) > 0 && recv(fd, &reply, sizeof(reply), 0) > 0;
  const int error = done ? -reply.error.error : errno;
  close(fd);
  return error;
}

// An association kept between commands.
struct Flow {
  Address own;
  std::unique_ptr<Association> association;

  void Open(uint64_t id, const Address& to, int64_t timeout_ms) {
    const int error = association->Open(own, to, timeout_ms);
    error == 0 ? Ask(id, timeout_ms) : ReplyErrno(id, error);
  }

  void Ask(uint64_t id, int64_t timeout_ms) {
    std::string answer;
    const int error = association->Ask(timeout_ms, &answer);
    if (error != 0) return ReplyErrno(id, error);
    Reply(id, ",\"own\":\"" + own.host() + "\",\"answer\":" + answer);
  }
};

class Probe {
 public:
  int Run() {
    if (!icmp_.Start()) {
      std::fprintf(stderr, "probe: no raw sockets: %s\n", std::strerror(errno));
      return 1;
    }
    for (std::string line; std::getline(std::cin, line);) Execute(std::istringstream(line));
    std::_Exit(0);  // threads still serve
  }

 private:
  void Execute(std::istringstream words) {
    uint64_t id = 0, flow = 0;
    int64_t timeout_ms = 0;
    std::string verb;
    words >> id >> verb;
    if (verb == "icmp") icmp_.Drain();
    if (verb == "icmp") return Reply(id, "");
    if (verb == "flush-conntrack") return ReplyErrno(id, FlushConntrack());
    if (verb == "listen") return Listen(id, &words);
    if (verb == "open") return Open(id, &words);
    words >> flow >> timeout_ms;
    if (verb == "ask" && flows_.contains(flow)) {
      // The thread keeps the flow alive, whatever is closed in the meantime.
      return std::thread(&Flow::Ask, flows_[flow], id, timeout_ms).detach();
    }
    ReplyErrno(id, verb == "close" && flows_.erase(flow) == 1 ? 0 : ENOENT);
  }

  void Listen(uint64_t id, std::istringstream* words) {
    std::string host, name;
    uint16_t port = 0;
    Address at;
    *words >> host >> port >> name;
    if (!at.Parse(host, port)) return ReplyErrno(id, EINVAL);
    ReplyErrno(id, kernel_sctp_ ? SctpSocket::Serve(at, name) : SctpRaw::Serve(at, name));
  }

  void Open(uint64_t id, std::istringstream* words) {
    std::string own_host, host;
    uint16_t own_port = 0, port = 0;
    int64_t timeout_ms = 0;
    *words >> own_host >> own_port >> host >> port >> timeout_ms;
    Address to;
    const auto flow = std::make_shared<Flow>();
    flow->own.set_port(own_port);
    if (!to.Parse(host, port)) return ReplyErrno(id, EINVAL);
    if (own_host != "-" && !flow->own.Parse(own_host, own_port)) return ReplyErrno(id, EINVAL);
    if (own_host == "-" && !ChooseSource(to, &flow->own)) return ReplyErrno(id, errno);
    flow->association.reset(kernel_sctp_ ? static_cast<Association*>(new SctpSocket) : new SctpRaw);
    flows_[id] = flow;
    std::thread(&Flow::Open, flow, id, to, timeout_ms).detach();
  }

  const bool kernel_sctp_ = SctpSocket::Available();
  IcmpWatch icmp_;
  std::map<uint64_t, std::shared_ptr<Flow>> flows_;
};

}  // namespace probe

int main() { return probe::Probe().Run(); }
