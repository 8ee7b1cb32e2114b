// The lines of files through a parallel stage and back in order: the blocks are read one after
// another, `work` makes a Result of each, several at a time, and `finish` gets them one after
// another in the order of the input, whatever the number of threads.  At most 2 threads + 2 blocks
// are in memory.
#pragma once

#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <memory>

#include "base/threads.h"
#include "data/line_reader.h"

namespace mt {

// work: Result(const LineBlock&), thread-safe.  finish: void(const LineBlock&, Result&).
// `threads` 0: as many as the machine has cores.  What any of them throws ends the run.
template <class Work, class Finish>
void run_line_pipeline(LineReader& reader, int threads, const Work& work, const Finish& finish) {
  using Result = decltype(work(std::declval<const LineBlock&>()));
  struct Item {
    LineBlock block;
    Result result;
  };
  using Token = std::shared_ptr<Item>;  // released also when another block throws
  if (threads <= 0) threads = available_cores();
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism,
                                  static_cast<std::size_t>(threads));  // more than cores, if asked
  tbb::task_arena arena(threads);
  arena.execute([&] {
    const auto read = [&](tbb::flow_control& control) {
      auto item = std::make_shared<Item>();
      if (!reader.next(item->block)) control.stop();
      return item;
    };
    const auto transform = [&](Token item) {
      item->result = work(item->block);
      return item;
    };
    tbb::parallel_pipeline(
        2 * static_cast<std::size_t>(threads) + 2,
        tbb::make_filter<void, Token>(tbb::filter_mode::serial_in_order, read) &
            tbb::make_filter<Token, Token>(tbb::filter_mode::parallel, transform) &
            tbb::make_filter<Token, void>(tbb::filter_mode::serial_in_order,
                                          [&](Token item) { finish(item->block, item->result); }));
  });
}

}  // namespace mt
