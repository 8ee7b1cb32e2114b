#include "serve/engine_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "tests/infer/letters.h"
#include "tests/infer/small_gpt.h"

namespace mt {
namespace {

const Letters kTokens;
const CompletionModel kModel{.tokenizer = kTokens, .vocab_size = 30};

CompletionOptions options_of(std::size_t n) {
  CompletionOptions options{.num_tokens = static_cast<std::int64_t>(1 + n * 7 % 30),
                            .ignore_eod = true};
  options.sampling.temperature = 0.5 + static_cast<double>(n % 4);
  return options;
}
std::string prompt_of(std::size_t n) {
  return std::string("abcdefghijklmnop").substr(n % 5, 1 + n % 10);
}

// What the n-th completion becomes alone.
std::vector<std::int32_t> alone(const Model& model, std::size_t n) {
  Engine engine(model, {.vocab_size = 30, .limits = {.threads = 1}});
  Completion completion(kModel, prompt_of(n), options_of(n), static_cast<std::uint32_t>(n), 0);
  engine.submit(completion);
  while (engine.step()) continue;
  return {completion.made().begin(), completion.made().end()};
}

EngineLoop::Work work(std::size_t n, std::function<void(Completion&)> made) {
  return {.completion = std::make_unique<Completion>(kModel, prompt_of(n), options_of(n),
                                                     static_cast<std::uint32_t>(n), 0),
          .made = std::move(made)};
}

// Several threads ask at once, and some leave before they are answered: each who stays gets what it
// gets alone.
TEST(EngineLoop, AnswersDoNotNoticeEachOther) {
  const auto model = make_gpt(small_llama(), DType::f32);
  constexpr std::size_t kThreads = 4, kEach = 10;
  std::vector<std::vector<std::int32_t>> expected, got(kThreads * kEach);
  for (std::size_t n = 0; n < got.size(); ++n) expected.push_back(alone(*model, n));
  {
    EngineLoop loop(*model, {.vocab_size = 30, .limits = {.max_requests = 3, .threads = 1}}, 1000);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < kEach; ++i) {
          const std::size_t n = t * kEach + i;
          std::promise<void> done;
          std::vector<EngineLoop::Work> all;
          all.push_back(work(n, [&, n](Completion& completion) {
            if (completion.finish() == Completion::Finish::none) return;
            got[n].assign(completion.made().begin(), completion.made().end());
            done.set_value();
          }));
          all.push_back(work(n + 1, [](Completion&) {}));
          const auto tickets = loop.submit(std::move(all));
          ASSERT_TRUE(tickets);
          loop.cancel(tickets->back());
          done.get_future().wait();
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(got, expected);
}

// The prompt is scored before the first token, and tokens are told one by one.
TEST(EngineLoop, Tells) {
  const auto model = make_gpt(small_gpt2());
  std::promise<void> done;
  std::size_t scores = 0, told = 0;
  EngineLoop loop(*model, {.vocab_size = 30, .limits = {.threads = 1}}, 0);
  std::vector<EngineLoop::Work> all;
  all.push_back(work(3, [&](Completion& completion) {
    EXPECT_EQ(scores, prompt_of(3).size() - 1);
    EXPECT_EQ(completion.made().size(), ++told);
    if (completion.finish() != Completion::Finish::none) done.set_value();
  }));
  all.front().prompt_alternatives = 2;
  all.front().scored = [&](const std::vector<LogProbs>& probs) { scores = probs.size(); };
  ASSERT_TRUE(loop.submit(std::move(all)));
  done.get_future().wait();
  EXPECT_EQ(told, static_cast<std::size_t>(options_of(3).num_tokens));
}

// One for which no token can be chosen fails alone.
TEST(EngineLoop, FailuresAreOfOne) {
  const auto model = make_gpt(small_gpt2());
  std::promise<std::string> why;
  std::promise<void> done;
  EngineLoop loop(*model, {.vocab_size = 30, .limits = {.max_requests = 2, .threads = 1}}, 0);
  CompletionOptions none = options_of(3);
  for (std::int32_t id = 0; id < 30; ++id)
    none.rules.bias[id] = -std::numeric_limits<double>::infinity();
  std::vector<EngineLoop::Work> all;
  all.push_back({.completion = std::make_unique<Completion>(kModel, "a", none, 0, 0),
                 .failed = [&](const ApiError& error) { why.set_value(error.message); }});
  all.push_back(work(3, [&](Completion& completion) {
    if (completion.finish() != Completion::Finish::none) done.set_value();
  }));
  ASSERT_TRUE(loop.submit(std::move(all)));
  EXPECT_NE(why.get_future().get(), "");
  done.get_future().wait();
  EXPECT_EQ(loop.state().finished, 1U);
}

// What there is no room for is not taken, and nothing of it.
TEST(EngineLoop, QueueIsBounded) {
  const auto model = make_gpt(small_gpt2());
  std::mutex held;  // stops the loop in the first completion's first token
  held.lock();
  std::promise<void> done;
  EngineLoop loop(*model, {.vocab_size = 30, .limits = {.max_requests = 1, .threads = 1}}, 1);
  const auto submit = [&](std::size_t count) {
    std::vector<EngineLoop::Work> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(work(1, [](Completion&) {}));
    return loop.submit(std::move(all)).has_value();
  };
  std::vector<EngineLoop::Work> first;
  first.push_back(work(1, [&](Completion& completion) {
    const std::lock_guard lock(held);
    if (completion.finish() != Completion::Finish::none) done.set_value();
  }));
  ASSERT_TRUE(loop.submit(std::move(first)));
  EXPECT_FALSE(submit(2));
  EXPECT_TRUE(submit(1));
  EXPECT_FALSE(submit(1));
  held.unlock();
  done.get_future().wait();
}

using namespace std::chrono_literals;

// Tasks that somebody waits for have places in the queue, which those who leave give back, and are
// told when their time is up.
TEST(EngineLoop, TasksWaitAsCompletionsDo) {
  const auto model = make_gpt(small_gpt2());
  const EngineOptions options{.vocab_size = 30, .limits = {.max_requests = 1, .threads = 1}};
  std::promise<void> held;
  std::promise<ApiError> waited;
  std::atomic<int> done = 0;
  EngineLoop loop(*model, options, 1, {.waits = 100ms});
  std::promise<void> begun;
  ASSERT_TRUE(loop.submit(
      [&](EngineLoop&) {
        begun.set_value();
        held.get_future().wait();
        return false;
      },
      {}));
  begun.get_future().wait();
  const auto submit = [&](std::size_t places = 1) {
    return loop.submit(
        [&](EngineLoop&) {
          ++done;
          return false;
        },
        {.failed = [&](const ApiError& error) { waited.set_value(error); }, .places = places});
  };
  EXPECT_FALSE(submit(2));  // the one that has begun keeps its place
  const auto first = submit();
  ASSERT_TRUE(first);
  EXPECT_FALSE(submit());
  EXPECT_EQ(loop.state().waiting, 1U);
  loop.cancel(*first);
  EXPECT_EQ(loop.state().waiting, 0U);
  ASSERT_TRUE(submit());
  std::this_thread::sleep_for(101ms);
  held.set_value();
  EXPECT_EQ(waited.get_future().get().status, 429);
  EXPECT_EQ(done, 0);
}

// Their turns are in between others', until they end, are cancelled or their time is up.
TEST(EngineLoop, TasksTakeTurns) {
  const auto model = make_gpt(small_gpt2());
  const EngineOptions options{.vocab_size = 30, .limits = {.max_requests = 1, .threads = 1}};
  std::vector<int> order;
  std::promise<void> ended, held;
  std::promise<ApiError> took;
  const auto turns = [&](int name, int count) {
    return [&order, &ended, &held, name, left = count](EngineLoop&) mutable {
      if (order.empty()) held.get_future().wait();
      order.push_back(name);
      if (--left == 0 && name == 2) ended.set_value();
      return left > 0;
    };
  };
  const auto endless = [](EngineLoop&) { return true; };
  {
    EngineLoop loop(*model, options, 2);
    ASSERT_TRUE(loop.submit(turns(1, 2), {}));
    ASSERT_TRUE(loop.submit(turns(2, 3), {}));
    held.set_value();
    ended.get_future().wait();
    EXPECT_EQ(order, (std::vector{1, 2, 1, 2, 2}));
    const auto left = loop.submit(endless, {});
    ASSERT_TRUE(left);
    loop.cancel(*left);
    while (loop.state().cancelled == 0) std::this_thread::sleep_for(1ms);
    EXPECT_FALSE(loop.waits(*left));
  }
  EngineLoop loop(*model, options, 2, {.all = 1ms});
  ASSERT_TRUE(loop.submit(endless, {.failed = [&](const ApiError& why) { took.set_value(why); }}));
  EXPECT_EQ(took.get_future().get().code, "deadline_exceeded");
  EXPECT_EQ(loop.state().waiting + loop.state().running, 0U);
}

// A task that is not ready has no turns, and may be withdrawn.
TEST(EngineLoop, TasksBeginOnceTheyAreReady) {
  const auto model = make_gpt(small_gpt2());
  const EngineOptions options{.vocab_size = 30, .limits = {.max_requests = 1, .threads = 1}};
  EngineLoop loop(*model, options, 2);
  std::promise<int> first;
  std::atomic<bool> is_ready = false;
  const auto task = [&](EngineLoop&) {
    first.set_value(is_ready ? 1 : 0);
    return false;
  };
  const auto a = loop.submit(task, {.ready = false}), b = loop.submit(task, {.ready = false});
  EXPECT_TRUE(loop.waits(*a));
  EXPECT_TRUE(loop.withdraw(*b));
  EXPECT_FALSE(loop.withdraw(*b));
  EXPECT_FALSE(loop.waits(*b));
  is_ready = true;
  loop.ready(*b);
  loop.ready(*a);
  EXPECT_EQ(first.get_future().get(), 1);
}

std::unique_ptr<Completion> endless() {
  const CompletionOptions options{.num_tokens = 1'000'000, .ignore_eod = true};
  return std::make_unique<Completion>(kModel, "ab", options, 0, 0);
}

// Completions that a task goes on with have its places, and have waited as long as it has: these
// have no time left for a token.
TEST(EngineLoop, CompletionsGoOnWhereTheirTaskStood) {
  const auto model = make_gpt(small_gpt2());
  const EngineOptions options{.vocab_size = 30, .limits = {.max_requests = 1, .threads = 1}};
  EngineLoop loop(*model, options, 2, {.all = 20ms});
  std::promise<ApiError> took;
  std::promise<std::size_t> open;
  std::atomic<int> made = 0;
  ASSERT_TRUE(loop.submit(
      [&](EngineLoop& again) {
        std::this_thread::sleep_for(21ms);
        std::vector<EngineLoop::Work> all;
        for (int i = 0; i < 3; ++i)
          all.push_back({.completion = endless(),
                         .made = [&](Completion&) { ++made; },
                         .failed =
                             [&, i](const ApiError& why) {
                               if (i == 2) took.set_value(why);
                             }});
        EXPECT_EQ(again.go_on(std::move(all)).size(), 3U);
        open.set_value(again.state().running + again.state().waiting);
        return false;
      },
      {.places = 3}));
  EXPECT_EQ(open.get_future().get(), 3U);
  EXPECT_EQ(took.get_future().get().code, "deadline_exceeded");
  EXPECT_EQ(made, 0);
}

// While nothing else wakes the loop a task's time ends, too, whether or not anybody is told.
TEST(EngineLoop, TasksThatAreNeverReadyEndInTime) {
  const auto model = make_gpt(small_gpt2());
  const EngineOptions options{.vocab_size = 30, .limits = {.max_requests = 1, .threads = 1}};
  std::promise<ApiError> waited;
  EngineLoop loop(*model, options, 2, {.waits = 10ms});
  const auto task = [](EngineLoop&) { return false; };
  ASSERT_TRUE(loop.submit(task, {.ready = false}));
  ASSERT_TRUE(loop.submit(
      task, {.failed = [&](const ApiError& why) { waited.set_value(why); }, .ready = false}));
  EXPECT_EQ(waited.get_future().get().code, "queue_timeout");
  EXPECT_EQ(loop.state().timed_out, 2U);
}

// One that nobody waits for has its turns to the end, whatever times others have.
TEST(EngineLoop, TasksMayTakeTheirTime) {
  const auto model = make_gpt(small_gpt2());
  const EngineOptions options{.vocab_size = 30, .limits = {.max_requests = 1, .threads = 1}};
  std::promise<bool> ended;
  EngineLoop loop(*model, options, 2, {.waits = 1ms, .all = 2ms});
  ASSERT_TRUE(loop.submit(
      [&, left = 5](EngineLoop&) mutable {
        std::this_thread::sleep_for(2ms);
        if (--left == 0) ended.set_value(true);
        return left > 0;
      },
      {.places = 0, .times_out = false}));
  EXPECT_EQ(ended.get_future().wait_for(10s), std::future_status::ready);
  EXPECT_EQ(loop.state().timed_out, 0U);
}

// The time of a task's turns is no waiting of the completions behind it.
TEST(EngineLoop, CompletionsBehindATaskWaitFromItsEndOn) {
  const auto model = make_gpt(small_gpt2());
  const EngineOptions options{.vocab_size = 30, .limits = {.max_requests = 1, .threads = 1}};
  EngineLoop loop(*model, options, 1, {.waits = 500ms});
  std::promise<int> status;
  ASSERT_TRUE(loop.submit(
      [&](EngineLoop& again) {
        std::this_thread::sleep_for(501ms);
        std::vector<EngineLoop::Work> all;
        all.push_back(work(1, [&](Completion& completion) {
          if (completion.finish() != Completion::Finish::none) status.set_value(200);
        }));
        all.front().failed = [&](const ApiError& why) { status.set_value(why.status); };
        again.go_on(std::move(all));
        return false;
      },
      {}));
  EXPECT_EQ(status.get_future().get(), 200);
}

// One that has no place in time, and one that takes too long: they are told so, and others go on.
TEST(EngineLoop, TimesAreUp) {
  const auto model = make_gpt(small_gpt2());
  const EngineOptions options{.vocab_size = 30, .limits = {.max_requests = 1, .threads = 1}};
  std::promise<ApiError> waited, took;
  {
    EngineLoop loop(*model, options, 1, {.waits = 1ms});
    std::vector<EngineLoop::Work> all;
    all.push_back({.completion = endless()});
    all.push_back({.completion = endless(),
                   .failed = [&](const ApiError& error) { waited.set_value(error); }});
    ASSERT_TRUE(loop.submit(std::move(all)));
    EXPECT_EQ(waited.get_future().get().status, 429);
  }
  EngineLoop loop(*model, options, 1, {.all = 1ms});
  std::vector<EngineLoop::Work> all;
  all.push_back(
      {.completion = endless(), .failed = [&](const ApiError& error) { took.set_value(error); }});
  ASSERT_TRUE(loop.submit(std::move(all)));
  EXPECT_EQ(took.get_future().get().code, "deadline_exceeded");
}

// The first one's prompt takes longer than they have, and nobody has begun with the others then.
TEST(EngineLoop, PromptsThatWaitToBeScoredEndInTime) {
  const auto model = make_gpt(small_gpt2());
  const EngineOptions options{.vocab_size = 30, .limits = {.max_requests = 1, .threads = 1}};
  std::promise<ApiError> waited;
  std::atomic<int> scored = 0;
  EngineLoop loop(*model, options, 3, {.all = 1ms});
  std::vector<EngineLoop::Work> all;
  for (const auto time : {5ms, 0ms})
    all.push_back({.completion = endless(),
                   .prompt_alternatives = 0,
                   .failed =
                       [&, time](const ApiError& error) {
                         if (time == 0ms) waited.set_value(error);
                       },
                   .scored =
                       [&, time](const auto&) {
                         ++scored;
                         std::this_thread::sleep_for(time);
                       }});
  ASSERT_TRUE(loop.submit(std::move(all)));
  EXPECT_EQ(waited.get_future().get().code, "deadline_exceeded");
  EXPECT_EQ(scored, 1);
}

}  // namespace
}  // namespace mt
