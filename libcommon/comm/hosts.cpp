#include "comm/hosts.h"

#include <algorithm>
#include <sstream>

#include "base/file.h"

namespace mt {
namespace {

std::string text_of(const std::optional<RankFailure>& failure) {
  if (!failure) return "";
  return concat(failure->rank, " ", static_cast<int>(failure->code), " ", failure->is_orderly, " ",
                failure->is_final, "\n", failure->how);
}

RankFailure failure_from(const std::string& said) {
  std::istringstream text(said);
  RankFailure failure;
  int code = 0;
  text >> failure.rank >> code >> failure.is_orderly >> failure.is_final;
  failure.code = static_cast<Exit>(code);
  text.ignore();
  std::getline(text, failure.how);
  return failure;
}

// An orderly end is no cause where a rank has failed, and to have been told of a failure is none.
int distance_from_cause(const RankFailure& failure) {
  return failure.code == Exit::peer_failed ? 2 : failure.is_orderly ? 1 : 0;
}

}  // namespace

Hosts::Hosts(const Launch& launch, std::chrono::milliseconds timeout, Signals& signals)
    : place_(launch), timeout_(timeout), signals_(signals) {
  place_.rank /= launch.local_size;
  place_.size /= launch.local_size;
  place_.run_id = concat("of hosts ", launch.run_id);
}

int Hosts::begin(int attempt) {
  if (alone()) return attempt;
  const auto until_signal = [this] {
    if (const std::optional<Signal> signal = signals_.poll())
      fail(Exit::stopped, "stopped by ", signal_name(*signal), " while it waited for other hosts");
  };
  const std::string number = std::to_string(attempt);
  others_.reset();
  try {
    others_ = std::make_unique<Rendezvous>(place_, timeout_, until_signal);
    for (const std::vector<std::byte>& said : others_->all_gather(as_bytes(number)))
      attempt = std::max(attempt, std::stoi(std::string(as_text(said))));
  } catch (const Error& error) {
    if (error.code() != Exit::peer_failed) throw;
    fail(error.code(), "among hosts: ", error.what());
  }
  return attempt;
}

std::optional<RankFailure> Hosts::agree(const std::optional<RankFailure>& own) {
  if (alone()) return own;
  std::vector<RankFailure> failures;
  try {
    for (const std::vector<std::byte>& said : others_->all_gather(as_bytes(text_of(own))))
      if (!said.empty()) failures.push_back(failure_from(std::string(as_text(said))));
  } catch (const Error&) {  // a host is gone, of which its ranks' peers have spoken
    return own;
  }
  if (failures.empty()) return std::nullopt;
  RankFailure cause = *std::ranges::min_element(failures, {}, distance_from_cause);
  cause.is_final = std::ranges::any_of(failures, &RankFailure::is_final);
  const bool is_own = own && cause.rank == own->rank;
  if (!is_own && !cause.is_orderly) cause.code = Exit::peer_failed;
  return cause;
}

}  // namespace mt
