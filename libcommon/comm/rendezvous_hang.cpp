// Who is at fault when ranks wait for each other until the timeout.  Rank 0 knows, a few moments
// late, how far each has come in each of its groups, all of whose ranks begin the same operations.
#include <algorithm>
#include <map>
#include <sstream>

#include "comm/rendezvous_state.h"

namespace mt {

using Progress = Rendezvous::Progress;

// A line of milliseconds, a tab and what was begun last stands first; one of each group, a tab,
// operations, a tab and the last of these follows.
std::string Rendezvous::State::text_of(const Progress& progress) {
  std::string text = concat(progress.waits.count(), "\t", progress.latest, "\n");
  for (const Progress::InGroup& one : progress.groups)
    text += concat(one.group, "\t", one.begun, "\t", one.last, "\n");
  return text;
}

Progress Rendezvous::State::progress_from(const std::string& text) {
  std::istringstream lines(text);
  Progress progress;
  Milliseconds::rep waits = 0;
  if (lines >> waits) progress.waits = Milliseconds(waits);
  lines.ignore();
  std::getline(lines, progress.latest);
  for (Progress::InGroup one; std::getline(lines, one.group, '\t') && lines >> one.begun;) {
    lines.ignore();
    std::getline(lines, one.last);
    progress.groups.push_back(one);
  }
  return progress;
}

Progress Rendezvous::State::progress() const {
  Progress own = own_progress ? own_progress() : Progress();
  if (patience > 0) own.waits = {};
  return own;
}

// What a rank is in that waits.
static std::string wait_text(const std::string& rank, const Progress& progress) {
  return concat("rank ", rank, " has waited for its GPU for ",
                static_cast<double>(progress.waits.count()) / 1000, " s",
                progress.latest.empty() ? "" : concat(" since it has begun ", progress.latest));
}

std::string Rendezvous::State::silence_text(const Peer& peer, Clock::duration time,
                                            const std::string& other,
                                            const Progress& of_other) const {
  const std::string text = concat("rank ", peer.name(), " has said nothing for ",
                                  in_seconds(std::chrono::duration_cast<Milliseconds>(time)),
                                  ": its process is stopped, or its host cannot be reached");
  return of_other.waits.count() == 0 ? text : concat(text, "; ", wait_text(other, of_other));
}

namespace {

struct Rank {
  std::string name;
  const Progress* progress;
  Rendezvous::Milliseconds waits() const { return progress->waits; }
};

// A rank in a group.
struct Member {
  const Rank* rank;
  const Progress::InGroup* at;
};

bool is_behind(const Member& a, const Member& b) { return a.at->begun < b.at->begun; }

std::string in_text(const Member& member) {
  return concat("rank ", member.rank->name, " is in operation ", member.at->begun,
                " of its group, ", member.at->last);
}

}  // namespace

std::string Rendezvous::State::hang_text(Milliseconds least) const {
  const Clock::time_point now = Clock::now();
  const auto silence =
      least < timeout ? std::min<Clock::duration>(timeout / 2, 3 * alive_interval()) : timeout / 2;
  const Progress own = progress();
  std::vector<Rank> ranks = {{concat(launch.rank, " (", own_host, ")"), &own}};
  for (const Peer& peer : peers) ranks.push_back({peer.name(), &peer.progress});
  const Rank& longest = *std::ranges::max_element(ranks, {}, &Rank::waits);
  if (longest.waits() < least) return "";
  for (const Peer& peer : peers)
    if (!peer.left && now - peer.heard > silence)
      return silence_text(peer, now - peer.heard, longest.name, *longest.progress);
  std::map<std::string, std::vector<Member>> groups;
  for (const Rank& rank : ranks)
    for (const Progress::InGroup& at : rank.progress->groups)
      groups[at.group].push_back({&rank, &at});

  // Who does not wait has not come; if all wait, some are in what the others are not.
  std::string differ;
  for (const auto& [name, members] : groups) {
    const Member first = *std::ranges::max_element(members, is_behind);
    std::vector<std::string> absent;
    for (const Member& member : members) {
      if (is_behind(member, first) && member.rank->waits() < longest.waits() / 2)
        absent.push_back(member.rank->name);
      const bool same = member.at->begun == first.at->begun && member.at->last == first.at->last;
      if (differ.empty() && !same) differ = concat(in_text(member), ", while ", in_text(first));
    }
    if (!absent.empty())
      return concat(ranks_text(absent), " did not come to operation ", first.at->begun, " of ",
                    absent.size() == 1 ? "its" : "their", " group, ", first.at->last, ", in ",
                    in_seconds(std::min(limit, longest.waits())));
  }
  if (!differ.empty()) return differ;
  return concat(wait_text(longest.name, *longest.progress),
                ", and all ranks have come to what it is in");
}

}  // namespace mt
