// What Rendezvous keeps, for the files that make it: rendezvous_meeting.cpp until the ranks have
// met, rendezvous.cpp from then on.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>

#include "comm/rendezvous.h"
#include "comm/socket.h"

namespace mt {

struct Rendezvous::State {
  using Clock = std::chrono::steady_clock;

  // The first number of a stranger's connection is hardly that of a hello.
  enum class Kind : std::uint32_t {
    hello = 0x74656D31,  // "version size rank host", newline, run id
    welcome,             // rank 0's host
    alive,               // Progress, as written by text_of()
    broadcast,
    all_gather,
    failed,   // a line
    goodbye,  // nothing more comes from this rank
  };
  struct Message {
    Kind kind;
    std::string content;
  };
  static constexpr Milliseconds kGrace{1000};  // for rank 0 to say whom it is that it waits for
  static constexpr std::uint32_t kMostOfHello = 4096, kMostBytes = 1U << 28;  // of a message

  static std::string frame(Kind kind, std::string_view content);
  // Takes the first whole message off what has come; false if there is none yet.
  static bool take_message(std::string& in, std::uint32_t most, Message* message, bool* valid);
  static const char* name_of(Kind collective);  // "a broadcast"
  static std::string in_seconds(Milliseconds time) {
    return concat(static_cast<double>(time.count()) / 1000, " s");
  }
  static std::string ranks_text(const std::vector<std::string>& names);  // "ranks 2 (a), 3 (b)"

  struct Peer {  // rank 0 has all others, another rank only rank 0
    int rank = 0;
    std::string host = {};
    Socket socket = {};
    std::string in = {}, out = {};
    std::deque<Message> messages = {};
    Clock::time_point heard = {};
    Progress progress = {};
    bool left = false;  // has said goodbye
    std::string name() const { return concat(rank, " (", host, ")"); }
  };
  struct Guest {  // a connection that has not yet said which rank it is
    Socket socket;
    std::string from, in = {};
  };

  State(const Launch& to_meet, Milliseconds to_wait, const std::function<void()>& checkpoint);
  ~State();

  // --- Meeting. ---
  void meet_all(const std::function<void()>& checkpoint);
  void greet(Guest& guest, const std::string& hello);
  void turn_away(Guest& guest, const std::string& why);
  [[noreturn]] void fail_meeting(const std::string& why);
  std::string missing_text() const;
  void meet_rank_0(const std::function<void()>& checkpoint);

  // --- The thread that carries messages.  Under the mutex, but for watch(). ---
  void watch();
  void carry(Peer& peer, short events);
  void understand(Peer& peer);
  void look_at_clock();
  Rendezvous::Stuck find_stuck();
  bool has_ended() const;
  Clock::duration alive_interval() const {
    return std::min<Clock::duration>(timeout / 8, std::chrono::seconds(5));
  }

  // --- Hangs: rendezvous_hang.cpp.  Under the mutex. ---
  static std::string text_of(const Progress& progress);
  static Progress progress_from(const std::string& text);
  Progress progress() const;  // of this rank
  // A peer has said nothing for so long; another rank waits meanwhile, or does not.
  std::string silence_text(const Peer& peer, Clock::duration time, const std::string& other,
                           const Progress& of_other) const;
  // Who waits for what, as far as this rank knows, and rank 0 knows all; empty: nobody has waited
  // for so long.
  std::string hang_text(Milliseconds least) const;

  // --- For both.  Under the mutex. ---
  void post(Peer& peer, Kind kind, std::string_view content);
  void post_all(Kind kind, std::string_view content);
  void end(const std::string& why, Exit with = Exit::peer_failed);  // of the run, if it goes on
  void lose(Peer& peer);
  void nudge() const;

  // --- Collectives. ---
  Peer& peer_of(int rank) {
    return peers[launch.rank == 0 ? static_cast<std::size_t>(rank) - 1 : 0];
  }
  void await(const std::vector<Peer*>& whom, Kind kind, std::unique_lock<std::mutex>& lock);
  static std::string take(Peer& peer);
  [[noreturn]] void fail_here(const std::string& why);

  const Launch launch;
  const Milliseconds timeout;
  Milliseconds limit;  // for another rank to come, or to say that it lives; under the mutex
  const std::string own_host;
  const Socket wake;  // an eventfd: the thread has something to do
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::vector<Peer> peers;
  std::string failed;    // what has ended the run; empty: nothing
  Exit code = Exit::ok;  // of this process then
  Clock::time_point failed_at = {};
  Rendezvous::Stuck stuck;
  std::function<Progress()> own_progress;
  int patience = 0;   // Patience that live
  int strangers = 0;  // turned away while the ranks met
  std::string last_stranger;
  Clock::time_point ending = Clock::time_point::max();  // carry what is left until then, and stop
  Clock::time_point next_alive = {}, last_look = {};
  std::thread watcher;
};

}  // namespace mt
