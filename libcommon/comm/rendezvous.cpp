#include "comm/rendezvous.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "comm/socket.h"

namespace mt {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = Rendezvous::Milliseconds;

// The first number of a stranger's connection is hardly kHello.
enum class Kind : std::uint32_t {
  hello = 0x74656D31,  // "version size rank host", newline, run id
  welcome,             // rank 0's host
  alive,
  broadcast,
  all_gather,
  failed,   // a line
  goodbye,  // nothing more comes from this rank
};

struct Header {
  Kind kind;
  std::uint32_t bytes;
};

struct Message {
  Kind kind;
  std::string content;
};

constexpr int kVersion = 1;
constexpr std::uint32_t kMostOfHello = 4096, kMostBytes = 1U << 28;

std::string frame(Kind kind, std::string_view content) {
  const Header header{kind, static_cast<std::uint32_t>(content.size())};
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  return text.append(content);
}

// Takes the first whole message off what has come; false if there is none yet.
bool take_message(std::string& in, std::uint32_t most, Message* message, bool* valid) {
  Header header;
  if (in.size() < sizeof header) return false;
  std::memcpy(&header, in.data(), sizeof header);
  *valid = header.kind >= Kind::hello && header.kind <= Kind::goodbye && header.bytes <= most;
  if (!*valid || in.size() - sizeof header < header.bytes) return false;
  *message = {header.kind, in.substr(sizeof header, header.bytes)};
  in.erase(0, sizeof header + header.bytes);
  return true;
}

const char* name_of(Kind collective) {
  return collective == Kind::broadcast ? "a broadcast" : "an all_gather";
}

std::string host_name() {
  std::array<char, 256> name = {};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string seconds(Milliseconds time) { return concat(time.count() / 1000.0, " s"); }

// "rank 2 (node07)", "ranks 2 (node07), 3 (node07) and 5 more"
std::string ranks_text(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  std::string text = names.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kMost ? concat(text, " and ", names.size() - kMost, " more") : text;
}

// Each of its connections takes a descriptor, and there may be more than 1024 ranks.
void allow_descriptors(int connections) {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t needed = static_cast<rlim_t>(connections) + 256;
  if (limit.rlim_cur >= needed) return;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

struct Rendezvous::State {
  struct Peer {  // rank 0 has all others, another rank only rank 0
    int rank = 0;
    std::string host = {};
    Socket socket = {};
    std::string in = {}, out = {};
    std::deque<Message> messages = {};
    Clock::time_point heard = {};
    bool left = false;  // has said goodbye
    std::string name() const { return concat(rank, " (", host, ")"); }
  };
  struct Guest {  // a connection that has not yet said which rank it is
    Socket socket;
    std::string from, in = {};
  };

  State(const Launch& to_meet, Milliseconds to_wait)
      : launch(to_meet), timeout(to_wait), own_host(host_name()), wake(::eventfd(0, EFD_CLOEXEC)) {
    if (launch.size == 1) return;
    launch.rank == 0 ? meet_all() : meet_rank_0();
    watcher = std::thread([this] { watch(); });
  }

  ~State() {
    if (!watcher.joinable()) return;
    {
      const std::lock_guard lock(mutex);
      post_all(Kind::goodbye, "");
      ending = Clock::now() + std::chrono::seconds(2);
    }
    nudge();
    watcher.join();
  }

  // --- Meeting. ---
  void meet_all();
  void greet(Guest& guest, const std::string& hello);
  void turn_away(Guest& guest, const std::string& why);
  [[noreturn]] void fail_meeting(const std::string& why);
  std::string missing_text() const;
  void meet_rank_0();
  std::string hello_text() const {
    return concat(kVersion, " ", launch.size, " ", launch.rank, " ", own_host, "\n", launch.run_id);
  }

  // --- The thread that carries messages.  Under the mutex, but for watch(). ---
  void watch();
  void carry(Peer& peer, short events);
  void understand(Peer& peer);
  void look_at_clock();
  Rendezvous::Stuck find_stuck();
  bool has_ended() const;

  // --- For both.  Under the mutex. ---
  void post(Peer& peer, Kind kind, std::string_view content) {
    if (peer.socket) peer.out += frame(kind, content);
  }
  void post_all(Kind kind, std::string_view content) {
    for (Peer& peer : peers) post(peer, kind, content);
  }
  // Of the run, unless it has failed already.
  void end(const std::string& why, Exit with = Exit::peer_failed) {
    if (!failed.empty()) return;
    failed = why.empty() ? "failed" : why;
    code = with;
    failed_at = Clock::now();
    post_all(Kind::failed, failed);
    changed.notify_all();
  }
  void lose(Peer& peer) {
    peer.socket = {};
    peer.out.clear();
    if (!peer.left) end(concat("rank ", peer.name(), " is gone: its connection was lost"));
    changed.notify_all();
  }
  void nudge() const { [[maybe_unused]] const int done = ::eventfd_write(wake.descriptor(), 1); }

  // --- Collectives. ---
  Peer& peer_of(int rank) {
    return peers[launch.rank == 0 ? static_cast<std::size_t>(rank) - 1 : 0];
  }
  void await(const std::vector<Peer*>& whom, Kind kind, std::unique_lock<std::mutex>& lock);
  static std::string take(Peer& peer);
  [[noreturn]] void fail_here(const std::string& why);

  const Launch launch;
  const Milliseconds timeout;
  const std::string own_host;
  const Socket wake;  // an eventfd: the thread has something to do
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::vector<Peer> peers;
  std::string failed;    // what has ended the run; empty: nothing
  Exit code = Exit::ok;  // of this process then
  Clock::time_point failed_at = {};
  Rendezvous::Stuck stuck;
  std::vector<std::string> strangers;                   // what was turned away while the ranks met
  Clock::time_point ending = Clock::time_point::max();  // carry what is left until then, and stop
  Clock::time_point next_alive = {}, last_look = {};
  std::thread watcher;
};

// --- Meeting. ---

void Rendezvous::State::fail_meeting(const std::string& why) {
  end(why);
  for (Peer& peer : peers)
    if (peer.socket) peer.socket.send(peer.out);
  fail(Exit::peer_failed, why);
}

void Rendezvous::State::turn_away(Guest& guest, const std::string& why) {
  std::string text = frame(Kind::failed, concat("rank 0 (", own_host, ") at ", launch.host, ":",
                                                launch.port, " turns this rank away: ", why));
  guest.socket.send(text);
  guest.socket = {};
  strangers.push_back(concat(guest.from, ": ", why));
}

// Makes a peer of a guest that says what it should.
void Rendezvous::State::greet(Guest& guest, const std::string& hello) {
  std::istringstream text(hello);
  int version = 0, size = 0, rank = 0;
  std::string host, run_id;
  text >> version >> size >> rank >> host;
  text.ignore();
  std::getline(text, run_id);
  if (!launch.run_id.empty() && !run_id.empty() && run_id != launch.run_id)
    return turn_away(
        guest, concat("its run is ", run_id, ", not ", launch.run_id, "; two runs need two ports"));
  Peer peer{rank, host.empty() ? guest.from : host, std::move(guest.socket), guest.in};
  const std::string name = peer.name();
  const auto other = std::ranges::find(peers, rank, &Peer::rank);
  const std::string twice = other == peers.end() ? "" : other->name();
  if (twice.empty()) peers.push_back(std::move(peer));
  const auto refuse = [&](const auto&... parts) {
    if (peer.socket) peers.push_back(std::move(peer));  // so that it is told
    fail_meeting(concat("rank ", name, " ", parts...));
  };
  if (version != kVersion)
    refuse("meets others by version ", version, ", rank 0 (", own_host, ") by ", kVersion,
           "; start the same program everywhere");
  if (size != launch.size)
    refuse("was started as one of ", size, " ranks, rank 0 (", own_host, ") as one of ",
           launch.size, "; give all the same number");
  if (!twice.empty()) refuse("came when rank ", twice, " was there; give each rank its own number");
  if (rank < 1 || rank >= size) refuse("is none of ranks 1 to ", size - 1);
}

std::string Rendezvous::State::missing_text() const {
  std::vector<std::string> missing;
  for (int rank = 1; rank < launch.size; ++rank)
    if (std::ranges::find(peers, rank, &Peer::rank) == peers.end())
      missing.push_back(std::to_string(rank));
  std::string text = concat(ranks_text(missing), " of ", launch.size, " did not come to rank 0 (",
                            own_host, ") at ", launch.host, ":", launch.port, " in ",
                            seconds(timeout), "; are they started, and can they reach it?");
  if (!strangers.empty())
    text += concat(" Turned away: ", strangers.size(), ", the last ", strangers.back());
  return text;
}

void Rendezvous::State::meet_all() {
  allow_descriptors(launch.size);
  const Socket listener = listen_on(launch.host, launch.port);
  const Clock::time_point until = Clock::now() + timeout;
  std::vector<Guest> guests;
  while (std::ssize(peers) + 1 < launch.size) {
    if (Clock::now() >= until) fail_meeting(missing_text());
    std::vector<pollfd> polled = {{listener.descriptor(), POLLIN, 0}};
    for (const Guest& guest : guests) polled.push_back({guest.socket.descriptor(), POLLIN, 0});
    for (const Peer& peer : peers) polled.push_back({peer.socket.descriptor(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), 100);
    for (Guest guest; (guest.socket = accept_from(listener, &guest.from));)
      guests.push_back(std::move(guest));
    for (Guest& guest : guests) {
      Message hello;
      bool valid = true;
      const bool open = guest.socket.receive(guest.in);
      const bool whole = take_message(guest.in, kMostOfHello, &hello, &valid);
      if (whole && hello.kind == Kind::hello)
        greet(guest, hello.content);
      else if (whole || !valid || !open)
        turn_away(guest, "it is no rank of mt");
    }
    std::erase_if(guests, [](const Guest& guest) { return !guest.socket; });
    for (Peer& peer : peers)
      if (!peer.socket.receive(peer.in))
        fail_meeting(concat("rank ", peer.name(), " is gone: its connection was lost"));
  }
  std::ranges::sort(peers, {}, &Peer::rank);
  for (Peer& peer : peers) peer.heard = Clock::now();
  post_all(Kind::welcome, own_host);
}

void Rendezvous::State::meet_rank_0() {
  const std::string place = concat(launch.host, ":", launch.port);
  const auto fail_to_meet = [&](const auto&... parts) {
    fail(Exit::peer_failed, "rank ", launch.rank, " (", own_host, "): ", parts...);
  };
  Clock::time_point until = Clock::now() + timeout;
  Peer& peer = peers.emplace_back();
  std::string why;
  for (auto pause = Milliseconds(20); !peer.socket;
       pause = std::min(2 * pause, Milliseconds(1000))) {
    peer.socket = connect_to(launch.host, launch.port, 5000, &why);
    if (peer.socket) break;
    if (Clock::now() >= until)
      fail_to_meet("no rank 0 at ", place, " in ", seconds(timeout), ": ", why,
                   "; is it started, and can this host reach it?");
    std::this_thread::sleep_for(pause);
  }
  std::string hello = frame(Kind::hello, hello_text());
  peer.socket.send(hello);
  // Rank 0 waits for the others as long as we do, from the time when it was there.
  until = Clock::now() + timeout + std::chrono::seconds(2);
  Message answer;
  bool valid = true;
  for (bool open = true; !take_message(peer.in, kMostBytes, &answer, &valid);) {
    if (!valid) fail_to_meet("what listens at ", place, " is no rank of mt");
    if (!open) fail_to_meet("rank 0 at ", place, " has hung up before all ranks had met");
    if (Clock::now() >= until)
      fail_to_meet("rank 0 at ", place, " has not answered in ", seconds(timeout));
    peer.socket.wait(POLLIN, 100);
    open = peer.socket.receive(peer.in);
  }
  if (answer.kind == Kind::failed) fail(Exit::peer_failed, answer.content);
  if (answer.kind != Kind::welcome) fail_to_meet("what listens at ", place, " is no rank 0 of mt");
  peer.host = answer.content;
  peer.heard = Clock::now();
}

// --- The thread that carries messages. ---

void Rendezvous::State::understand(Peer& peer) {
  Message message;
  bool valid = true;
  while (take_message(peer.in, kMostBytes, &message, &valid)) {
    if (message.kind == Kind::failed)
      end(message.content);
    else if (message.kind == Kind::goodbye)
      peer.left = true;
    else if (message.kind != Kind::alive)
      peer.messages.push_back(std::move(message));
  }
  if (!valid) end(concat("rank ", peer.name(), " has sent what is no message"));
  changed.notify_all();
}

void Rendezvous::State::carry(Peer& peer, short events) {
  bool open = true;
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) {
    open = peer.socket.receive(peer.in);
    peer.heard = Clock::now();
    understand(peer);
  }
  if (!open || !peer.socket.send(peer.out)) lose(peer);
}

// Says that this process lives, and sees who has not said so.  A rank that waits for rank 0 gives
// it time to name somebody else.
void Rendezvous::State::look_at_clock() {
  const Clock::time_point now = Clock::now();
  const auto often = std::min<Clock::duration>(timeout / 8, std::chrono::seconds(5));
  const auto patience = launch.rank == 0 ? timeout : timeout + timeout / 4;
  const bool slept = now - last_look > patience / 2;  // it was we who were stopped
  last_look = now;
  for (Peer& peer : peers) {
    if (slept) peer.heard = now;
    if (peer.socket && !peer.left && now - peer.heard > patience)
      end(concat("rank ", peer.name(), " has said nothing for ", seconds(timeout),
                 ": its process is stopped, or its host cannot be reached"));
  }
  if (now < next_alive) return;
  next_alive = now + often;
  post_all(Kind::alive, "");
}

bool Rendezvous::State::has_ended() const {
  const auto idle = [](const Peer& peer) { return !peer.socket || peer.out.empty(); };
  return ending != Clock::time_point::max() &&
         (Clock::now() >= ending || std::ranges::all_of(peers, idle));
}

// What is to be called now since the owner has not come back after a failure.
Rendezvous::Stuck Rendezvous::State::find_stuck() {
  constexpr std::chrono::seconds kPatience(3);  // a supervisor has a little more
  const bool hangs =
      !failed.empty() && ending == Clock::time_point::max() && Clock::now() - failed_at > kPatience;
  return hangs ? std::exchange(stuck, {}) : Rendezvous::Stuck();
}

void Rendezvous::State::watch() {
  std::vector<pollfd> polled;
  last_look = Clock::now();
  {
    const std::lock_guard lock(mutex);
    for (Peer& peer : peers) understand(peer);  // what came with the greeting
  }
  for (;;) {
    polled.assign(1, {wake.descriptor(), POLLIN, 0});
    Rendezvous::Stuck call;
    {
      const std::lock_guard lock(mutex);
      look_at_clock();
      for (Peer& peer : peers) {
        if (peer.socket && !peer.socket.send(peer.out)) lose(peer);
        const short events = peer.out.empty() ? POLLIN : POLLIN | POLLOUT;
        polled.push_back({peer.socket.descriptor(), events, 0});
      }
      if (has_ended()) return;
      call = find_stuck();
    }
    if (call) call(failed, code);  // neither changes any more
    const auto often = std::min<Milliseconds>(timeout / 16, Milliseconds(1000));
    ::poll(polled.data(), polled.size(), static_cast<int>(often.count()) + 1);
    eventfd_t ignored;
    if (polled[0].revents != 0) ::eventfd_read(wake.descriptor(), &ignored);
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < peers.size(); ++i)
      if (polled[i + 1].revents != 0 && peers[i].socket) carry(peers[i], polled[i + 1].revents);
  }
}

// --- Collectives. ---

// Throws what has ended the run, which it ends itself for the reason given, if any.
void Rendezvous::State::fail_here(const std::string& why) {
  end(why);
  nudge();
  fail(Exit::peer_failed, failed);
}

// Returns when each of them has sent something of this kind.
void Rendezvous::State::await(const std::vector<Peer*>& whom, Kind kind,
                              std::unique_lock<std::mutex>& lock) {
  const auto until = Clock::now() + (launch.rank == 0 ? timeout : timeout + timeout / 4);
  const auto has_sent = [](const Peer* peer) { return !peer->messages.empty(); };
  const auto has_left = [&](const Peer* peer) { return peer->left && !has_sent(peer); };
  const bool known = changed.wait_until(lock, until, [&] {
    return !failed.empty() || std::ranges::all_of(whom, has_sent) ||
           std::ranges::any_of(whom, has_left);
  });
  if (!failed.empty()) fail_here(failed);
  if (!known) {
    std::vector<std::string> absent;
    for (const Peer* peer : whom)
      if (!has_sent(peer)) absent.push_back(peer->name());
    fail_here(
        concat(ranks_text(absent), " did not come to ", name_of(kind), " in ", seconds(timeout)));
  }
  for (const Peer* peer : whom)
    if (has_left(peer))
      fail_here(
          concat("rank ", peer->name(), " has ended while others wait for it in ", name_of(kind)));
    else if (peer->messages.front().kind != kind)
      fail_here(concat("rank ", peer->name(), " is in ", name_of(peer->messages.front().kind),
                       " while rank ", launch.rank, " (", own_host, ") is in ", name_of(kind)));
}

std::string Rendezvous::State::take(Peer& peer) {
  std::string content = std::move(peer.messages.front().content);
  peer.messages.pop_front();
  return content;
}

static std::vector<std::byte> bytes_of(std::string_view text) {
  const Bytes bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> Rendezvous::broadcast(Bytes bytes, int root) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (!s.failed.empty()) s.fail_here(s.failed);
  std::string content(rank() == root ? as_text(bytes) : "");
  if (rank() != root) {
    State::Peer& from = s.peer_of(root);
    s.await({&from}, Kind::broadcast, lock);
    content = State::take(from);
  }
  for (State::Peer& peer : s.peers)
    if ((rank() == 0 && peer.rank != root) || rank() == root)
      s.post(peer, Kind::broadcast, content);
  s.nudge();
  return bytes_of(content);
}

std::vector<std::vector<std::byte>> Rendezvous::all_gather(Bytes bytes) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (!s.failed.empty()) s.fail_here(s.failed);
  std::vector<State::Peer*> all;
  for (State::Peer& peer : s.peers) all.push_back(&peer);
  std::string gathered = frame(Kind::all_gather, as_text(bytes));
  if (rank() == 0) {
    s.await(all, Kind::all_gather, lock);
    for (State::Peer& peer : s.peers) gathered += frame(Kind::all_gather, State::take(peer));
    s.post_all(Kind::all_gather, gathered);
    s.nudge();
  } else {
    s.post_all(Kind::all_gather, as_text(bytes));
    s.nudge();
    s.await(all, Kind::all_gather, lock);
    gathered = State::take(s.peer_of(0));
  }
  std::vector<std::vector<std::byte>> parts;
  Message part;
  bool valid = true;
  while (take_message(gathered, kMostBytes, &part, &valid)) parts.push_back(bytes_of(part.content));
  return parts;
}

// --- Rendezvous. ---

Rendezvous::Rendezvous(const Launch& launch, Milliseconds timeout)
    : state_(std::make_unique<State>(launch, timeout)) {}
Rendezvous::~Rendezvous() = default;

int Rendezvous::rank() const { return state_->launch.rank; }
int Rendezvous::size() const { return state_->launch.size; }

void Rendezvous::barrier() { all_gather({}); }

void Rendezvous::abort(const std::string& why, Exit code) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->end(concat("rank ", rank(), " (", state_->own_host, "): ", why), code);
  }
  state_->nudge();
}

void Rendezvous::if_stuck(Stuck then) {
  const std::lock_guard lock(state_->mutex);
  state_->stuck = std::move(then);
}

std::string Rendezvous::failure(Milliseconds wait) const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, wait, [&] { return !state_->failed.empty(); });
  return state_->failed;
}

// A run that ends on a signal ends so on every rank.
static bool is_orderly(Exit code) { return code == Exit::stopped || static_cast<int>(code) >= 128; }

void tell_failures(Rendezvous& ranks, const std::function<void()>& part) {
  try {
    part();
  } catch (const Error& error) {
    if (!is_orderly(error.code())) ranks.abort(error.what(), error.code());
    throw;
  } catch (const std::exception& error) {
    ranks.abort(error.what());
    throw;
  }
}

void run_process(const Launch& launch, Milliseconds timeout,
                 const std::function<void(Rendezvous&)>& body) {
  Rendezvous rendezvous(launch, timeout);
  try {
    tell_failures(rendezvous, [&] { body(rendezvous); });
  } catch (const Error& error) {
    if (is_orderly(error.code()) && launch.rank > 0) throw Error(error.code(), "");
    throw;
  }
}

}  // namespace mt
