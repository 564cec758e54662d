// The process that acts inside one namespace of the lab: `agent NAME`. It connects, and serves by
// its name, until its standard input ends. In C++, because an emulated machine makes no more than
// twenty connections in a second with one in Node.
//
// Lines in, of words between blanks (actor.ts); the replies are `AgentReply` in outcome.ts:
//   <id> listen <protocol> <address> <port>
//   <id> connect <attempt> <count>
//   <id> open <flow> <attempt> [download]
//   <id> resume <flow> <timeout ms>
//   <id> close <flow>
//   <id> reset
//   <id> flush-conntrack
//   <id> run <input> <word> ..., each in hexadecimal digits after an x
// <attempt> is <protocol> <own address or -> <own port or 0> <address> <port> <timeout ms>.

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "event_loop.h"
#include "flow.h"
#include "icmp_watch.h"
#include "reply.h"
#include "sctp_process.h"
#include "server.h"

namespace lab {

// Below node ports (30000) and the kernel's own range (32768).
constexpr uint16_t kSourcePortFirst = 10'000;
constexpr uint16_t kSourcePortLast = 29'999;
constexpr int kConcurrentMax = 32;

void WriteLine(const std::string& text) {
  const std::string line = text + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t size = write(1, line.data() + at, line.size() - at);
    // The test has ended.
    if (size < 0 && errno != EINTR) std::exit(0);
    if (size > 0) at += static_cast<size_t>(size);
  }
}

void Respond(uint64_t id, const std::string& result) {
  WriteLine("{\"id\":" + std::to_string(id) + (result.empty() ? "" : ",\"result\":" + result) +
            "}");
}

void RespondError(uint64_t id, const std::string& error) {
  WriteLine("{\"id\":" + std::to_string(id) + ",\"error\":" + Quoted(error) + "}");
}

void RespondErrno(uint64_t id, const char* what, int error) {
  if (error == 0) return Respond(id, "");
  RespondError(id, std::string(what) + ": " + strerrorname_np(error));
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

// The bytes of `x3f0a`.
std::string FromHex(const std::string& text) {
  std::string bytes;
  for (size_t i = 1; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// A destination, and the source to use; `timeout_ms` bounds each wait for an answer.
struct Attempt {
  std::string protocol;
  Address own;  // without an address: any; port 0: one of the agent's
  Address to;
  int64_t timeout_ms = 0;

  bool Parse(std::istringstream* words) {
    std::string own_host, host;
    uint16_t own_port = 0, port = 0;
    *words >> protocol >> own_host >> own_port >> host >> port >> timeout_ms;
    own.set_port(own_port);
    return to.Parse(host, port) && (own_host == "-" || own.Parse(own_host, own_port));
  }

  int ProtocolNumber() const {
    return protocol == "TCP" ? IPPROTO_TCP : protocol == "UDP" ? IPPROTO_UDP : IPPROTO_SCTP;
  }
};

// A flow, and the question that waits on it.
struct Asked {
  Attempt attempt;
  std::unique_ptr<Flow> flow;
  Deliver deliver = nullptr;  // set while a question waits
  EventLoop::TimerKey timer;
  bool has_timer = false;
};

class Agent {
 public:
  explicit Agent(std::string name) : name_(std::move(name)) {}

  [[noreturn]] void Run() {
    if (!icmp_.Open([this](const IcmpError& error) { OnIcmp(error); })) {
      std::fprintf(stderr, "agent: no raw sockets: %s\n", std::strerror(errno));
      std::exit(1);
    }
    loop_.Watch(icmp_.v4(), EPOLLIN, [this](uint32_t) { icmp_.Drain(); });
    loop_.Watch(icmp_.v6(), EPOLLIN, [this](uint32_t) { icmp_.Drain(); });
    loop_.Watch(0, EPOLLIN, [this](uint32_t) { OnInput(); });
    loop_.Run();
  }

 private:
  // Connections of one request, at most some at a time.
  struct Round {
    uint64_t id = 0;
    Attempt attempt;
    int left = 0;
    int open = 0;
    std::vector<std::pair<std::string, int>> tally;
  };

  void OnInput() {
    char buffer[65536];
    const ssize_t size = read(0, buffer, sizeof(buffer));
    if (size <= 0) std::exit(0);
    lines_.append(buffer, static_cast<size_t>(size));
    for (size_t end; (end = lines_.find('\n')) != std::string::npos;) {
      std::istringstream words(lines_.substr(0, end));
      lines_.erase(0, end + 1);
      Execute(&words);
    }
  }

  void Execute(std::istringstream* words) {
    uint64_t id = 0;
    std::string verb;
    *words >> id >> verb;
    if (verb == "listen") return Listen(id, words);
    if (verb == "connect") return Connect(id, words);
    if (verb == "open") return Open(id, words);
    if (verb == "resume") return Resume(id, words);
    if (verb == "flush-conntrack") return RespondErrno(id, "flush-conntrack", FlushConntrack());
    if (verb == "run") return RunCommand(id, words);
    if (verb == "close") {
      std::string flow;
      *words >> flow;
      Close(flow);
      return Respond(id, "");
    }
    if (verb == "reset") {
      Reset();
      return Respond(id, "");
    }
    RespondError(id, "unknown request " + verb);
  }

  void Listen(uint64_t id, std::istringstream* words) {
    std::string protocol, host;
    uint16_t port = 0;
    Address at;
    *words >> protocol >> host >> port;
    const std::string key = protocol + " " + host + " " + std::to_string(port);
    if (!at.Parse(host, port)) return RespondError(id, "no address: " + host);
    if (protocol == "SCTP") {
      if (sctp_servers_.contains(key)) return Respond(id, "");
      const std::string request = "listen " + host + " " + std::to_string(port) + " " + name_;
      sctp_.Request(request, [this, id, key](const SctpProcess::Result& result) {
        if (result.error == 0) sctp_servers_.insert(key);
        RespondErrno(id, "listen", result.error);
      });
      return;
    }
    if (servers_.contains(key)) return Respond(id, "");
    std::unique_ptr<Server> server;
    if (protocol == "TCP") {
      server = std::make_unique<TcpServer>(&loop_, at, name_);
    } else {
      server = std::make_unique<UdpServer>(&loop_, at, name_);
    }
    const int error = server->Start();
    if (error == 0) servers_[key] = std::move(server);
    RespondErrno(id, "listen", error);
  }

  void Connect(uint64_t id, std::istringstream* words) {
    const auto round = std::make_shared<Round>();
    round->id = id;
    if (!round->attempt.Parse(words)) return RespondError(id, "no attempt");
    *words >> round->left;
    Continue(round);
  }

  // Opens as many connections as there may be.
  void Continue(const std::shared_ptr<Round>& round) {
    while (round->left > 0 && round->open < kConcurrentMax) {
      round->left--;
      round->open++;
      const auto asked = NewFlow(round->attempt);
      Ask(asked, round->attempt.timeout_ms, [this, round, asked](const Reply& reply) {
        Count(&round->tally, OutcomeOf(reply));
        Forget(asked);
        round->open--;
        // Not from here, where this may be the loop above.
        loop_.After(0, [this, round] { Continue(round); });
      });
    }
    if (round->left > 0 || round->open > 0 || round->id == 0) return;
    std::string counts;
    for (const auto& [outcome, count] : round->tally) {
      counts += (counts.empty() ? "" : ",") + ("{\"count\":" + std::to_string(count)) +
                ",\"outcome\":" + outcome + "}";
    }
    Respond(std::exchange(round->id, 0), "[" + counts + "]");
  }

  static void Count(std::vector<std::pair<std::string, int>>* tally, const std::string& outcome) {
    const auto found = std::ranges::find(*tally, outcome, &std::pair<std::string, int>::first);
    if (found == tally->end()) {
      tally->emplace_back(outcome, 1);
    } else {
      found->second++;
    }
  }

  void Open(uint64_t id, std::istringstream* words) {
    std::string name, download;
    Attempt attempt;
    *words >> name;
    if (!attempt.Parse(words)) return RespondError(id, "no attempt");
    *words >> download;
    Close(name);
    const auto asked = NewFlow(attempt);
    named_[name] = asked;
    Ask(asked, attempt.timeout_ms, [id, asked, download](const Reply& reply) {
      if (download == "download") asked->flow->StartDownload();
      Respond(id, OutcomeOf(reply));
    });
  }

  void Resume(uint64_t id, std::istringstream* words) {
    std::string name;
    int64_t timeout_ms = 0;
    *words >> name >> timeout_ms;
    const auto found = named_.find(name);
    if (found == named_.end()) return RespondError(id, "no open flow " + name);
    Ask(found->second, timeout_ms,
        [id](const Reply& reply) { Respond(id, OutcomeOf(reply)); });
  }

  void Close(const std::string& name) {
    const auto found = named_.find(name);
    if (found == named_.end()) return;
    Forget(found->second);
    named_.erase(found);
  }

  void Reset() {
    while (!named_.empty()) Close(std::string(named_.begin()->first));
    servers_.clear();
    if (!sctp_servers_.empty()) sctp_.End();
    sctp_servers_.clear();
  }

  void RunCommand(uint64_t id, std::istringstream* words) {
    std::string input, word;
    std::vector<std::string> argv;
    *words >> input;
    while (*words >> word) argv.push_back(FromHex(word));
    if (argv.empty()) return RespondError(id, "no command");
    Command::Run(&loop_, argv, FromHex(input), [id](const CommandResult& result) {
      Respond(id, "{\"code\":" + std::to_string(result.code) + ",\"stdout\":" + Quoted(result.out) +
                    ",\"stderr\":" + Quoted(result.err) + "}");
    });
  }

  // The agent selects source ports itself, so that they identify the flow of an ICMP error.
  std::shared_ptr<Asked> NewFlow(Attempt attempt) {
    if (attempt.own.port() == 0) attempt.own.set_port(next_port_);
    next_port_ = next_port_ == kSourcePortLast ? kSourcePortFirst
                                               : static_cast<uint16_t>(next_port_ + 1);
    const auto asked = std::make_shared<Asked>();
    asked->attempt = attempt;
    if (attempt.protocol == "TCP") {
      asked->flow = std::make_unique<TcpFlow>(&loop_, attempt.own, attempt.to);
    } else if (attempt.protocol == "UDP") {
      asked->flow = std::make_unique<UdpFlow>(&loop_, attempt.own, attempt.to);
    } else {
      asked->flow = std::make_unique<SctpFlow>(&sctp_, attempt.own, attempt.to);
    }
    flows_.insert(asked);
    return asked;
  }

  // Closes it. A question that waits on it stays without a reply.
  void Forget(const std::shared_ptr<Asked>& asked) {
    CancelTimer(asked.get());
    asked->deliver = nullptr;
    flows_.erase(asked);
    asked->flow.reset();
  }

  void CancelTimer(Asked* asked) {
    if (asked->has_timer) loop_.Cancel(asked->timer);
    asked->has_timer = false;
  }

  void Ask(const std::shared_ptr<Asked>& asked, int64_t timeout_ms, Deliver deliver) {
    asked->deliver = std::move(deliver);
    if (asked->attempt.protocol != "SCTP") {
      asked->has_timer = true;
      asked->timer = loop_.After(timeout_ms, [this, asked] {
        asked->has_timer = false;
        Settle(asked, {Reply::kTimeout});
      });
    }
    asked->flow->Ask(timeout_ms, [this, asked](const Reply& reply) {
      // TCP reports ECONNREFUSED for a reset and for port unreachable, and does not report errors
      // that it takes for temporary ones. So the packets themselves are watched, too.
      if (reply.kind == Reply::kFailed) icmp_.Drain();
      Settle(asked, reply);
    });
  }

  // The first reply counts.
  void Settle(const std::shared_ptr<Asked>& asked, const Reply& reply) {
    if (asked->deliver == nullptr) return;
    CancelTimer(asked.get());
    asked->flow->GiveUp();
    const Deliver deliver = std::exchange(asked->deliver, nullptr);
    deliver(reply);
  }

  void OnIcmp(const IcmpError& error) {
    const auto all = flows_;
    for (const std::shared_ptr<Asked>& asked : all) {
      const auto& [protocol, own, to, _] = asked->attempt;
      if (asked->attempt.ProtocolNumber() == error.protocol && own.port() == error.port &&
          to.port() == error.to.port() && to.host() == error.to.host()) {
        Settle(asked, {Reply::kUnreachable, error.meaning, error.from});
      }
    }
  }

  const std::string name_;
  EventLoop loop_;
  IcmpWatch icmp_;
  SctpProcess sctp_{&loop_};
  std::map<std::string, std::unique_ptr<Server>> servers_;
  std::set<std::string> sctp_servers_;
  std::set<std::shared_ptr<Asked>> flows_;
  std::map<std::string, std::shared_ptr<Asked>> named_;
  uint16_t next_port_ = kSourcePortFirst;
  std::string lines_;
};

}  // namespace lab

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: agent NAME\n");
    return 1;
  }
  signal(SIGPIPE, SIG_IGN);
  lab::Agent(words[1]).Run();
}
