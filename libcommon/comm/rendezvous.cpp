#include "comm/rendezvous.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "comm/rendezvous_state.h"

namespace mt {

using Clock = std::chrono::steady_clock;

static std::string host_name() {
  std::array<char, 256> name = {};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// --- Messages. ---

struct Header {
  std::uint32_t kind, bytes;
};

std::string Rendezvous::State::frame(Kind kind, std::string_view content) {
  const Header header{static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(content.size())};
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  return text.append(content);
}

bool Rendezvous::State::take_message(std::string& in, std::uint32_t most, Message* message,
                                     bool* valid) {
  Header header;
  if (in.size() < sizeof header) return false;
  std::memcpy(&header, in.data(), sizeof header);
  const Kind kind{header.kind};
  *valid = kind >= Kind::hello && kind <= Kind::goodbye && header.bytes <= most;
  if (!*valid || in.size() - sizeof header < header.bytes) return false;
  *message = {kind, in.substr(sizeof header, header.bytes)};
  in.erase(0, sizeof header + header.bytes);
  return true;
}

const char* Rendezvous::State::name_of(Kind collective) {
  return collective == Kind::broadcast ? "a broadcast" : "an all_gather";
}

std::string Rendezvous::State::ranks_text(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  std::string text = names.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kMost ? concat(text, " and ", names.size() - kMost, " more") : text;
}

void Rendezvous::State::post(Peer& peer, Kind kind, std::string_view content) {
  if (peer.socket) peer.out += frame(kind, content);
}

void Rendezvous::State::post_all(Kind kind, std::string_view content) {
  for (Peer& peer : peers) post(peer, kind, content);
}

void Rendezvous::State::nudge() const {
  [[maybe_unused]] const int done = ::eventfd_write(wake.descriptor(), 1);
}

void Rendezvous::State::end(const std::string& why, Exit with) {
  if (!failed.empty()) return;
  failed = why.empty() ? "failed" : why;
  code = with;
  failed_at = Clock::now();
  post_all(Kind::failed, failed);
  changed.notify_all();
}

void Rendezvous::State::lose(Peer& peer) {
  peer.socket = {};
  peer.out.clear();
  if (!peer.left) end(concat("rank ", peer.name(), " is gone: its connection was lost"));
  changed.notify_all();
}

// --- The thread that carries messages. ---

void Rendezvous::State::understand(Peer& peer) {
  Message message;
  bool valid = true;
  while (take_message(peer.in, kMostBytes, &message, &valid)) {
    if (message.kind == Kind::failed)
      end(message.content);
    else if (message.kind == Kind::goodbye)
      peer.left = true, peer.progress.waits = {};
    else if (message.kind == Kind::alive)
      peer.progress = progress_from(message.content);
    else
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
  const auto patience = launch.rank == 0 ? limit : limit + kGrace;
  const bool slept = now - last_look > patience / 2;  // it was we who were stopped
  last_look = now;
  for (Peer& peer : peers) {
    if (slept) peer.heard = now;
    if (peer.socket && !peer.left && now - peer.heard > patience)
      end(silence_text(peer, limit, concat(launch.rank, " (", own_host, ")"), progress()));
  }
  if (now < next_alive) return;
  next_alive = now + alive_interval();
  post_all(Kind::alive, own_progress ? text_of(progress()) : "");
  if (const std::string why = launch.rank == 0 ? hang_text(limit) : ""; !why.empty()) end(why);
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
  const auto until = Clock::now() + (launch.rank == 0 ? limit : limit + kGrace);
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
        concat(ranks_text(absent), " did not come to ", name_of(kind), " in ", in_seconds(limit)));
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
    s.await({&from}, State::Kind::broadcast, lock);
    content = State::take(from);
  }
  for (State::Peer& peer : s.peers)
    if ((rank() == 0 && peer.rank != root) || rank() == root)
      s.post(peer, State::Kind::broadcast, content);
  s.nudge();
  return bytes_of(content);
}

std::vector<std::vector<std::byte>> Rendezvous::all_gather(Bytes bytes) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (!s.failed.empty()) s.fail_here(s.failed);
  std::vector<State::Peer*> all;
  for (State::Peer& peer : s.peers) all.push_back(&peer);
  std::string gathered = State::frame(State::Kind::all_gather, as_text(bytes));
  if (rank() == 0) {
    s.await(all, State::Kind::all_gather, lock);
    for (State::Peer& peer : s.peers)
      gathered += State::frame(State::Kind::all_gather, State::take(peer));
    s.post_all(State::Kind::all_gather, gathered);
    s.nudge();
  } else {
    s.post_all(State::Kind::all_gather, as_text(bytes));
    s.nudge();
    s.await(all, State::Kind::all_gather, lock);
    gathered = State::take(s.peer_of(0));
  }
  std::vector<std::vector<std::byte>> parts;
  State::Message part;
  bool valid = true;
  while (State::take_message(gathered, State::kMostBytes, &part, &valid))
    parts.push_back(bytes_of(part.content));
  return parts;
}

// --- Rendezvous. ---

Rendezvous::State::State(const Launch& to_meet, Milliseconds to_wait,
                         const std::function<void()>& checkpoint)
    : launch(to_meet),
      timeout(to_wait),
      limit(to_wait),
      own_host(host_name()),
      wake(::eventfd(0, EFD_CLOEXEC)) {
  if (launch.size == 1) return;
  launch.rank == 0 ? meet_all(checkpoint) : meet_rank_0(checkpoint);
  watcher = std::thread([this] { watch(); });
}

Rendezvous::State::~State() {
  if (!watcher.joinable()) return;
  {
    const std::lock_guard lock(mutex);
    post_all(Kind::goodbye, "");
    ending = Clock::now() + std::chrono::seconds(2);
  }
  nudge();
  watcher.join();
}

Rendezvous::Rendezvous(const Launch& launch, Milliseconds timeout,
                       const std::function<void()>& checkpoint)
    : state_(std::make_unique<State>(launch, timeout, checkpoint)) {}
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

void Rendezvous::end_waiting(const std::string& why, Exit code) {
  {
    const std::lock_guard lock(state_->mutex);
    const std::string text = state_->hang_text(Milliseconds(1));
    state_->end(text.empty() ? why : concat(why, ": ", text), code);
  }
  state_->nudge();
}

void Rendezvous::wait_at_most(Milliseconds limit) {
  const std::lock_guard lock(state_->mutex);
  state_->limit = std::min(state_->limit, limit);
}

void Rendezvous::add_patience(int more) {
  const std::lock_guard lock(state_->mutex);
  state_->patience += more;
}

void Rendezvous::if_stuck(Stuck then) {
  const std::lock_guard lock(state_->mutex);
  state_->stuck = std::move(then);
}

void Rendezvous::follow(std::function<Progress()> progress) {
  const std::lock_guard lock(state_->mutex);
  state_->own_progress = std::move(progress);
}

std::string Rendezvous::failure(Milliseconds wait) const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, wait, [&] { return !state_->failed.empty(); });
  return state_->failed;
}

void check_own_gpus(Rendezvous& ranks, Bytes own) {
  const std::vector<std::vector<std::byte>> all = ranks.all_gather(own);
  for (auto gpu = all.begin(); gpu != all.end(); ++gpu)
    if (const auto other = std::find(all.begin(), gpu, *gpu); other != gpu)
      fail(Exit::unavailable, "ranks ", other - all.begin(), " and ", gpu - all.begin(),
           " have the same GPU: show each process all of its host's, or only its own");
}

// A run that ends on a signal ends so on every rank.
static bool is_orderly(Exit code) { return code == Exit::stopped || static_cast<int>(code) >= 128; }

void tell_failures(Rendezvous& ranks, const std::function<void()>& part) {
  try {
    part();
  } catch (const Error& error) {
    if (is_orderly(error.code()))
      ranks.wait_at_most(std::chrono::seconds(20));
    else
      ranks.abort(error.what(), error.code());
    throw;
  } catch (const std::bad_alloc&) {
    ranks.abort("out of memory", Exit::out_of_memory);
    throw;
  } catch (const std::exception& error) {
    ranks.abort(error.what());
    throw;
  }
}

void run_process(const Launch& launch, Rendezvous::Milliseconds timeout,
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
