// Progress: how far a long piece of work is.  On a terminal a bar with rate and time left, redrawn
// ten times a second; elsewhere an event of the log every 30 seconds; with --progress json a JSON
// line every second; nothing under --quiet, with --progress none or on a rank above 0.
//
//   Progress progress(cl.log(), "encoding", "bytes", file.size());
//   while (...) progress.add(block.size());
//
// add() is cheap and may be called from several threads; whichever comes when a line is due writes
// it.  USR2 has it tell how far it is.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/activity.h"

namespace mt {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // `total` 0: unknown.  `interval` 0: as said above.
  Progress(const Log& log, std::string what, std::string unit, std::uint64_t total,
           Clock::duration interval = {});
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { finish(); }

  void add(std::uint64_t count);
  void expect(std::uint64_t total) { total_ = total; }  // as is known, or guessed, by now
  void finish();  // removes the bar; with --progress json writes the last line.  No add() after it.
  std::uint64_t done() const { return done_.load(std::memory_order_relaxed); }

 private:
  enum class Form { none, bar, lines };
  void show() const;
  void tell(Log::Level at) const;  // an event of the log
  double elapsed() const;          // seconds
  std::string bar(double seconds, std::uint64_t done) const;

  Log log_;
  std::string what_, unit_;
  std::atomic<std::uint64_t> total_;
  Form form_;
  Clock::duration interval_;
  Clock::time_point start_;
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<Clock::rep> due_;  // when the next line is, since the clock's epoch
  bool finished_ = false;
  Activity asked_;
};

// 1234567 as "1.23M", for people.
std::string short_number(double number);
// Seconds as "45s", "3m05s", "2h07m" or "4d11h".
std::string short_duration(double seconds);

}  // namespace mt
