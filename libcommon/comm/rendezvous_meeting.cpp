#include <poll.h>

#include <algorithm>
#include <sstream>

#include "base/file.h"
#include "comm/rendezvous_state.h"

namespace mt {

constexpr int kVersion = 3;  // of what is said here

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
  ++strangers;
  last_stranger = concat(guest.from, ": ", why);
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
  peers.push_back(std::move(peer));  // also one that is refused, so that it is told
  const auto refuse = [&](const auto&... parts) {
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
                            in_seconds(timeout), "; are they started, and can they reach it?");
  if (strangers > 0) text += concat(" Turned away: ", strangers, ", the last ", last_stranger);
  return text;
}

void Rendezvous::State::meet_all(const std::function<void()>& checkpoint) {
  allow_open_files(static_cast<std::size_t>(launch.size));  // connections: there may be many ranks
  const Socket listener = listen_on(launch.host, launch.port);
  const Clock::time_point until = Clock::now() + timeout;
  std::vector<Guest> guests;
  while (std::ssize(peers) + 1 < launch.size) {
    checkpoint();
    if (Clock::now() >= until) fail_meeting(missing_text());
    std::vector<pollfd> polled = {{listener.descriptor(), POLLIN, 0}};
    for (const Guest& guest : guests) polled.push_back({guest.socket.descriptor(), POLLIN, 0});
    for (const Peer& peer : peers) polled.push_back({peer.socket.descriptor(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), 100);
    std::string from;
    for (Socket socket; (socket = accept_from(listener, &from));)
      guests.push_back({std::move(socket), from});
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

void Rendezvous::State::meet_rank_0(const std::function<void()>& checkpoint) {
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
    checkpoint();
    if (Clock::now() >= until)
      fail_to_meet("no rank 0 at ", place, " in ", in_seconds(timeout), ": ", why,
                   "; is it started, and can this host reach it?");
    std::this_thread::sleep_for(pause);
  }
  std::string hello = frame(Kind::hello, concat(kVersion, " ", launch.size, " ", launch.rank, " ",
                                                own_host, "\n", launch.run_id));
  peer.socket.send(hello);
  // Rank 0 waits for the others as long as we do, from the time when it was there.
  until = Clock::now() + timeout + kGrace;
  Message answer;
  bool valid = true;
  for (bool open = true; !take_message(peer.in, kMostBytes, &answer, &valid);) {
    checkpoint();
    if (!valid) fail_to_meet("what listens at ", place, " is no rank of mt");
    if (!open) fail_to_meet("rank 0 at ", place, " has hung up before all ranks had met");
    if (Clock::now() >= until)
      fail_to_meet("rank 0 at ", place, " has not answered in ", in_seconds(timeout));
    peer.socket.wait(POLLIN, 100);
    open = peer.socket.receive(peer.in);
  }
  if (answer.kind == Kind::failed) fail(Exit::peer_failed, answer.content);
  if (answer.kind != Kind::welcome) fail_to_meet("what listens at ", place, " is no rank 0 of mt");
  peer.host = answer.content;
  peer.heard = Clock::now();
}

}  // namespace mt
