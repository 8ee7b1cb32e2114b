// The lines of files through a parallel stage and back in order: the blocks are read one after
// another, `work` makes a Result of each, several at a time, and `finish` gets them one after
// another in the order of the input, whatever the number of threads.  At most 2 threads + 2 blocks
// are in memory, which later ones use again, and one that is much larger than the reader's blocks,
// for a line is, is alone.
#pragma once

#include <tbb/concurrent_queue.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <exception>
#include <memory>

#include "base/input/line_reader.h"
#include "base/threads.h"

namespace mt {

// How many blocks are in memory at a time.
inline int blocks_in_flight(int threads) { return 2 * worker_threads(threads) + 2; }

// work: void(const LineBlock&, Result&), thread-safe, overwrites what an earlier block has left in
// the Result.  finish: void(const LineBlock&, Result&). `threads`: as worker_threads() has it.
// Throws what the first block to fail threw, first in the order of the input; no later block is
// finished.
template <class Result, class Work, class Finish>
void run_line_pipeline(LineReader& reader, int threads, const Work& work, const Finish& finish) {
  struct Item {
    LineBlock block;
    Result result;
    std::exception_ptr error;  // carried along: a stage that throws would make TBB leak its item
  };
  using Token = std::shared_ptr<Item>;
  std::exception_ptr first_error;
  std::atomic<bool> failed = false;
  bool ended = false;  // reading, also by an error, behind which other blocks may still be at work
  Token large;         // to be worked on when all before it is done
  tbb::concurrent_queue<Token> idle;
  const auto guarded = [](Item& item, const auto& body) {
    try {
      if (!item.error) body();
    } catch (...) {
      item.error = std::current_exception();
    }
  };
  const auto read = [&](tbb::flow_control& control) {
    Token item;
    if (!idle.try_pop(item)) item = std::make_shared<Item>();
    bool more = false;
    guarded(*item, [&] { more = !failed && !ended && reader.next(item->block); });
    ended = !more;
    if (more && item->block.size > 2 * reader.block_bytes()) {
      large = item;
      more = false;
    }
    if (!more && !item->error) control.stop();
    return item;
  };
  const auto transform = [&](Token item) {
    guarded(*item, [&] { work(item->block, item->result); });
    return item;
  };
  const auto complete = [&](const Token& item) {
    if (failed) return;
    guarded(*item, [&] { finish(item->block, item->result); });
    first_error = item->error;
    failed = first_error != nullptr;
    if (!failed && item->block.size <= 2 * reader.block_bytes()) idle.push(item);
  };

  tbb::task_arena arena(worker_threads(threads));
  do {
    large.reset();
    arena.execute([&] {
      using tbb::filter_mode;
      tbb::parallel_pipeline(
          static_cast<std::size_t>(blocks_in_flight(threads)),
          tbb::make_filter<void, Token>(filter_mode::serial_in_order, read) &
              tbb::make_filter<Token, Token>(filter_mode::parallel, transform) &
              tbb::make_filter<Token, void>(filter_mode::serial_in_order, complete));
    });
    if (large) complete(transform(large));
  } while (large && !failed);
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace mt
