// Plans: what travels between ranks and what hides it, how long schedules and steps take, which
// layouts are proposed.
#include "train/plan.h"

#include <gtest/gtest.h>

#include <numeric>

#include "train/plan_search.h"
#include "train/schedule_drawing.h"

namespace mt {
namespace {

Machine simple_machine() {
  return {.name = "simple",
          .peak = 1000,
          .products = 100,
          .bytes = 10,
          .memory = 1 << 20,
          .gpus_per_node = 4,
          .node = {.bytes = 8, .latency = 1},
          .network = {.bytes = 2, .latency = 3}};
}

// --- Machines -----------------------------------------------------------------------------------

TEST(Machine, WorkTakesTheLongerOfFlopsAndBytes) {
  const Machine machine = simple_machine();
  PerFamily<Cost> work = {};
  work[Family::product] = {.flops = 400, .bytes = 20};
  work[Family::norm] = {.bytes = 30};
  work[Family::communication] = {.message_bytes = 1000, .messages = 1};
  const PerFamily<double> seconds = machine.seconds(work, {}, false);
  EXPECT_DOUBLE_EQ(seconds[Family::product], 4 + 0.25 * 2);
  EXPECT_DOUBLE_EQ(seconds[Family::norm], 3);
  EXPECT_EQ(seconds[Family::communication], 0);
  work[Family::product].bytes = 100;
  EXPECT_DOUBLE_EQ(machine.seconds(work, {}, false)[Family::product], 10);
}

TEST(Machine, AttentionIsSlowerBackwardWithSmallHeadsAndForShortSequences) {
  const Machine machine = MachineOptions{}.machine();
  PerFamily<Cost> work = {};
  work[Family::attention] = {.flops = 1e12, .bytes = 1};
  const auto seconds = [&](std::int64_t head_dim, std::int64_t tokens, bool backward) {
    return machine.seconds(work, {head_dim, tokens}, backward)[Family::attention];
  };
  EXPECT_GT(seconds(128, 4096, true), seconds(128, 4096, false));
  EXPECT_GT(seconds(64, 4096, false), seconds(128, 4096, false));
  EXPECT_GT(seconds(128, 1024, false), seconds(128, 4096, false));
  EXPECT_NEAR(1 / seconds(128, 4096, false), 0.9 * 591, 0.005 * 591);  // cuDNN's at 4k
  EXPECT_NEAR(1 / seconds(128, 8192, true), 0.9 * 541, 0.01 * 541);
}

TEST(Machine, MessagesPassTheSlowestLink) {
  const Machine machine = simple_machine();
  const auto seconds = [&](const std::vector<int>& ranks) {
    return machine.seconds({.group = "", .collective = "", .ranks = ranks, .bytes = 16});
  };
  EXPECT_DOUBLE_EQ(seconds({4, 5, 6, 7}), 1 + 16 / 8.0);
  EXPECT_DOUBLE_EQ(seconds({0, 4}), 1 + 3 + 16 / 2.0);             // a card of each node
  EXPECT_DOUBLE_EQ(seconds({0, 4, 8, 12}), 1 + 2 * 3 + 16 / 2.0);  // a tree over four nodes
  EXPECT_DOUBLE_EQ(seconds({0, 1, 4, 5}), 1 + 3 + 16 / 4.0);
  EXPECT_DOUBLE_EQ(seconds({0, 1, 2, 3, 4, 5, 6, 7}), 1 + 3 + 16 / 8.0);
  EXPECT_TRUE(machine.within_node({0, 3}));
  EXPECT_FALSE(machine.within_node({3, 4}));
}

TEST(Machine, OptionsReplaceWhatIsKnown) {
  MachineOptions options;
  EXPECT_EQ(options.machine().name, "h200");
  EXPECT_FALSE(options.is_named());
  options = {.name = "a100",
             .tflops = 200,
             .memory_bandwidth = 1500,
             .launch = 5,
             .link_bandwidth = 100,
             .link_latency = 2,
             .network_bandwidth = 10,
             .network_latency = 4,
             .memory = 40,
             .gpus_per_node = 16};
  const Machine machine = options.machine();
  EXPECT_EQ(machine.products, 200e12);
  EXPECT_EQ(machine.bytes, 1500e9);
  EXPECT_DOUBLE_EQ(machine.launch, 5e-6);
  EXPECT_EQ(machine.node.bytes, 100e9);
  EXPECT_DOUBLE_EQ(machine.node.latency, 2e-6);
  EXPECT_EQ(machine.network.bytes, 10e9);
  EXPECT_DOUBLE_EQ(machine.network.latency, 4e-6);
  EXPECT_EQ(machine.memory, std::size_t{40} << 30);
  EXPECT_EQ(machine.gpus_per_node, 16);
}

// --- Clocks -------------------------------------------------------------------------------------

// A group of two on meta, whose messages of 16 bytes leave 8 of them, and take 1 + 8 / 8 seconds.
class Clock : public testing::Test {
 protected:
  Clock() {
    group_.call("tensor");
    clock_.begin_part(false);
  }
  void work(double seconds) { stream_.count({.bytes = 10 * seconds}, Family::norm); }
  Pending gather() { return group_.all_gather(all_, half_); }
  RankClock::Part last() { return clock_.end().back(); }

  Machine machine_ = simple_machine();
  Stream stream_{Device::meta};
  RankClock clock_{machine_, {}, stream_};
  MetaGroup group_{0, {2, 3}, stream_, &clock_};
  Buffer storage_{Device::meta, 64};
  Tensor all_ = storage_.tensor(DType::u8, {16}), half_ = storage_.tensor(DType::u8, {8});
};

TEST_F(Clock, WorkHidesMessages) {
  Pending message = gather();
  work(0.5);
  message.wait();  // 1.5 seconds early
  work(1);
  EXPECT_DOUBLE_EQ(last().families[Family::norm], 1.5);
  EXPECT_DOUBLE_EQ(last().families[Family::communication], 1.5);
  Pending hidden = gather();
  work(5);
  hidden.wait();
  EXPECT_DOUBLE_EQ(last().families[Family::communication], 1.5);
  EXPECT_DOUBLE_EQ(last().seconds(), 8);
  ASSERT_EQ(clock_.messages().size(), 1U);
  const GroupMessages& m = clock_.messages().front();
  EXPECT_EQ(m.group, "tensor");
  EXPECT_EQ(m.collective, "all_gather");
  EXPECT_EQ(m.ranks, 2);
  EXPECT_TRUE(m.within_node);
  EXPECT_EQ(m.count, 2);
  EXPECT_EQ(m.bytes, 16);
  EXPECT_DOUBLE_EQ(m.seconds, 4);
  EXPECT_DOUBLE_EQ(m.waited, 1.5);
}

TEST_F(Clock, MessagesOfOneGroupFollowEachOther) {
  const std::unique_ptr<Group> other = group_.split({0, 1});
  dynamic_cast<MetaGroup&>(*other).call("data");
  Pending first = gather(), second = gather(), beside = other->all_gather(all_, half_);
  beside.wait();
  EXPECT_DOUBLE_EQ(last().seconds(), 2);
  second.wait();
  first.wait();
  EXPECT_DOUBLE_EQ(last().seconds(), 4);
  EXPECT_EQ(clock_.messages().size(), 2U);
}

TEST_F(Clock, APartMayWaitForAMessageOfTheOneBefore) {
  Pending message = gather(), later = gather();
  work(1);
  clock_.begin_part(true);
  work(0.5);
  message.wait();
  EXPECT_DOUBLE_EQ(clock_.end().at(1).families[Family::communication], 0);
  EXPECT_DOUBLE_EQ(last().families[Family::communication], 0.5);
}

// The second message arrives 2 seconds after the step that left it; the part that needs it after
// 0.5 seconds can begin 1.5 seconds after that step.
TEST_F(Clock, MessagesThatAStepLeavesHoldUpTheNext) {
  Pending now = gather(), later = gather();
  now.wait();
  clock_.begin_step();
  EXPECT_EQ(clock_.messages().front().count, 0);
  clock_.begin_part(false);
  work(0.25);
  clock_.begin_part(false);
  work(0.5);
  later.wait();
  EXPECT_DOUBLE_EQ(last().seconds(), 0.5);
  EXPECT_DOUBLE_EQ(last().not_before, 1.5);
}

TEST_F(Clock, MessagesToOtherStagesOnlyTravel) {
  group_.call("pipeline");
  Pending sent = group_.send(all_, 1);
  sent.wait();
  EXPECT_EQ(last().seconds(), 0);
  EXPECT_DOUBLE_EQ(last().transfer, 1 + 16 / 8.0);
}

TEST_F(Clock, ALaunchComesBeforeWork) {
  machine_.launch = 0.25;
  clock_.begin_part(false);
  EXPECT_EQ(last().launch, 0);
  work(1);
  Pending message = gather();
  work(1);
  message.wait();
  EXPECT_DOUBLE_EQ(last().seconds(), 0.25 + 1 + 2);
}

// --- Timelines ----------------------------------------------------------------------------------

// Stages whose forwards, backwards and weight gradients all take the same times.
struct EqualStages {
  int ranks = 1, chunks = 1, micro_batches = 1;
  double forward = 2, backward = 3, weight_gradients = 1.5;
};

Timeline walk(const EqualStages& e, const std::vector<Schedule>& schedules, double transfer = 0) {
  std::vector<std::vector<ActionSeconds>> seconds;
  for (const Schedule& schedule : schedules) {
    const bool defers = defers_weight_gradients(schedule);
    std::vector<ActionSeconds>& rank = seconds.emplace_back();
    for (const Action& action : schedule) {
      const double work = action.kind == Action::Kind::forward ? e.forward
                          : action.kind == Action::Kind::backward
                              ? e.backward + (defers ? 0 : e.weight_gradients)
                          : action.kind == Action::Kind::weight_gradients ? e.weight_gradients
                                                                          : 0;
      rank.push_back({work / e.chunks, transfer});
    }
  }
  return make_timeline(schedules, seconds);
}

double formula(const EqualStages& e, bool zero_bubble) {
  return bubble_seconds({.interleaved = e.chunks > 1,
                         .zero_bubble = zero_bubble,
                         .ranks = e.ranks,
                         .chunks = e.chunks,
                         .micro_batch = e.forward + e.backward + e.weight_gradients,
                         .weight_gradients = e.weight_gradients});
}

TEST(Timeline, EqualStagesWaitAsLongAsTheFormulaSays) {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const int micro_batches : {ranks, 2 * ranks, 4 * ranks}) {
      EqualStages e{.ranks = ranks, .micro_batches = micro_batches};
      const double busy = micro_batches * (e.forward + e.backward + e.weight_gradients);
      const auto check = [&](const char* name, const auto& schedule, bool zero_bubble) {
        std::vector<Schedule> schedules;
        for (int r = 0; r < ranks; ++r)
          schedules.push_back(schedule(
              {.rank = r, .ranks = ranks, .chunks = e.chunks, .group = ranks}, micro_batches));
        const Timeline timeline = walk(e, schedules);
        EXPECT_NEAR(timeline.seconds, busy + formula(e, zero_bubble), 1e-9)
            << name << " of " << ranks << " ranks, " << micro_batches << " micro-batches";
        for (std::size_t r = 0; r < schedules.size(); ++r)
          EXPECT_NEAR(timeline.busy(r, schedules[r]), busy, 1e-9);
      };
      check("gpipe", gpipe, false);
      check("1F1B", one_f_one_b, false);
      if (ranks > 1)
        for (e.chunks = 2; e.chunks <= 4; ++e.chunks) check("interleaved", interleaved, false);
      e.chunks = 1;
      e.backward = e.forward = e.weight_gradients;  // as the paper draws it
      const double even = micro_batches * 3 * e.forward;
      std::vector<Schedule> schedules;
      for (int r = 0; r < ranks; ++r)
        schedules.push_back(zero_bubble({.rank = r, .ranks = ranks}, micro_batches));
      EXPECT_NEAR(walk(e, schedules).seconds, even + formula(e, true), 1e-9)
          << "zero-bubble of " << ranks << " ranks, " << micro_batches << " micro-batches";
    }
}

// Forward 2, backward 4.5 on each of two ranks, messages 1: rank 1 begins at 3, and so on.
TEST(Timeline, MessagesTakeTime) {
  const EqualStages e{.ranks = 2, .micro_batches = 1};
  std::vector<Schedule> schedules;
  for (int r = 0; r < 2; ++r) schedules.push_back(one_f_one_b({.rank = r, .ranks = 2}, 1));
  const Timeline timeline = walk(e, schedules, 1);
  EXPECT_DOUBLE_EQ(timeline.end(1), 2 + 1 + 2 + 4.5);
  EXPECT_DOUBLE_EQ(timeline.end(0), 2 + 1 + 2 + 4.5 + 1 + 4.5);
}

TEST(Timeline, WorkBeginsWhenItCan) {
  const Schedule forwards{{Action::Kind::forward}, {Action::Kind::forward}};
  const Timeline timeline =
      make_timeline({forwards}, {{{.work = 2, .not_before = 3}, {.work = 2, .not_before = 4}}});
  EXPECT_EQ(timeline.ranks[0][0].begin, 3);
  EXPECT_EQ(timeline.seconds, 7);
  EXPECT_EQ(timeline.busy(0, forwards), 4);
}

TEST(Timeline, SchedulesThatWaitForEachOtherAreNamed) {
  const Schedule receives{{Action::Kind::receive_forward}};
  EXPECT_THROW(make_timeline({receives, receives}, {{{}}, {{}}}), Error);
}

TEST(ScheduleDrawing, ShowsWhatEachStageDoes) {
  StepTimes times;
  for (int r = 0; r < 2; ++r) times.schedules.push_back(one_f_one_b({.rank = r, .ranks = 2}, 2));
  times.timeline =
      walk({.ranks = 2, .forward = 1, .backward = 1, .weight_gradients = 1}, times.schedules);
  EXPECT_EQ(times.timeline.seconds, 9);
  EXPECT_EQ(schedule_text(times, 28),
            "stage 0   0011....aaaa..bbbb\n"
            "stage 1   ..00aaaa11bbbb....\n"
            "          0-9 forward, a-j backward of a micro-batch, by its number's last digit; = "
            "weight gradients; . waits\n");
  const std::string svg = schedule_svg(times);
  EXPECT_TRUE(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
  std::size_t boxes = 0;
  for (std::size_t at = 0; (at = svg.find("fill-opacity", at)) != svg.npos; ++at) ++boxes;
  EXPECT_EQ(boxes, 8U);
}

// --- Plans --------------------------------------------------------------------------------------

TrainOptions small_model() {
  TrainOptions o;
  o.model.num_layers = 4;
  o.model.hidden_size = 64;
  o.model.num_attention_heads = 4;
  o.model.max_position_embeddings = 64;
  o.model.vocab_size = 256;
  o.model.untie_embeddings_and_output_weights = true;
  o.data.seq_length = 64;
  o.micro_batch_size = 2;
  o.global_batch_size = 16;
  o.compute.bf16 = true;
  o.plan = true;
  return o;
}

Plan plan_of(TrainOptions o) {
  o.complete();
  return make_plan(o);
}

const GroupMessages* find(const RankPlan& rank, const char* group, const char* collective) {
  const auto found = std::ranges::find_if(rank.messages, [&](const GroupMessages& m) {
    return m.group == group && m.collective == collective;
  });
  return found == rank.messages.end() ? nullptr : &*found;
}

TEST(Plan, MessagesByGroupAreAllMessages) {
  TrainOptions o = small_model();
  o.ranks = 16;
  o.parallel.tensor_model_parallel_size = 2;
  o.parallel.pipeline_model_parallel_size = 2;
  o.parallel.context_parallel_size = 2;
  o.optimizer.use_distributed_optimizer = true;
  for (const RankPlan& rank : plan_of(o).pipeline) {
    double count = 0, bytes = 0;
    for (const GroupMessages& m : rank.messages) {
      count += m.count;
      bytes += m.bytes;
    }
    EXPECT_EQ(count, rank.step.messages);
    EXPECT_NEAR(bytes, rank.step.message_bytes, 1e-9 * bytes);
  }
}

// Four micro-batches of 2 x 64 tokens, 64 wide, in 16 bits, on each of two pipelines.
TEST(Plan, CountsMessagesOfEachGroup) {
  TrainOptions o = small_model();
  o.ranks = 8;
  o.parallel.tensor_model_parallel_size = 2;
  o.parallel.pipeline_model_parallel_size = 2;
  const Plan plan = plan_of(o);
  const double hidden = 2 * 64 * 64 * 2;  // bytes of a micro-batch's
  const RankPlan &first = plan.pipeline.at(0), &last = plan.pipeline.at(1);
  const GroupMessages* sent = find(first, "pipeline", "send");
  ASSERT_NE(sent, nullptr);
  EXPECT_EQ(sent->count, 4);
  EXPECT_EQ(sent->bytes, 4 * hidden);
  EXPECT_EQ(sent->ranks, 2);
  EXPECT_EQ(find(last, "pipeline", "send")->bytes, 4 * hidden);
  // Two layers: after attention and MLP, forwards and backwards; and the embedding's sum.
  const GroupMessages* summed = find(first, "tensor", "all_reduce");
  ASSERT_NE(summed, nullptr);
  EXPECT_EQ(summed->count, 4 * (2 * 4 + 1));
  EXPECT_EQ(summed->bytes, 4 * (2 * 4 + 1) * hidden);  // 2 (n-1)/n of two
  // Gradients in f32, of what is not shared and half of what is.
  const GroupMessages* reduced = find(first, "data", "all_reduce");
  ASSERT_NE(reduced, nullptr);
  EXPECT_GE(reduced->bytes, static_cast<double>(first.memory.gradients) - 4096);
  EXPECT_EQ(find(first, "context", "send"), nullptr);
}

TEST(Plan, FamiliesAndWaitingAreTheStep) {
  TrainOptions o = small_model();
  o.ranks = 8;
  o.parallel.pipeline_model_parallel_size = 4;
  const Plan plan = plan_of(o);
  ASSERT_TRUE(plan.times);
  const StepTimes& t = *plan.times;
  const double sum = std::accumulate(t.families.begin(), t.families.end(), 0.0);
  EXPECT_NEAR(sum + t.launches + t.waiting, t.seconds, 1e-12);
  EXPECT_GT(t.idle, 0);
  EXPECT_NEAR(plan.mfu(), plan.model_flops / (8 * t.seconds * plan.machine->peak), 1e-12);
  EXPECT_EQ(plan.tokens, 16 * 64);
}

double seconds_of(const TrainOptions& o) { return plan_of(o).times->seconds; }

TEST(Plan, FasterMachinesAreNotSlower) {
  TrainOptions o = small_model();
  o.ranks = 16;
  o.parallel.tensor_model_parallel_size = 2;
  o.parallel.pipeline_model_parallel_size = 2;
  const double usual = seconds_of(o);
  const auto with = [&](auto MachineOptions::*rate, double value) {
    TrainOptions other = o;
    other.machine.*rate = value;
    return seconds_of(other);
  };
  EXPECT_LT(with(&MachineOptions::tflops, 2000), usual);
  EXPECT_LT(with(&MachineOptions::memory_bandwidth, 9000), usual);
  EXPECT_LT(with(&MachineOptions::link_latency, 1), usual);
  EXPECT_LT(with(&MachineOptions::network_latency, 1), usual);
  EXPECT_GT(with(&MachineOptions::link_bandwidth, 0.1), usual);
  EXPECT_GT(with(&MachineOptions::network_bandwidth, 0.1), usual);
  EXPECT_GT(with(&MachineOptions::launch, 100), usual);
}

TEST(Plan, OverlapHidesReductions) {
  TrainOptions o = small_model();
  o.model.hidden_size = 1024;
  o.model.max_position_embeddings = o.data.seq_length = 1024;
  o.micro_batch_size = 8;
  o.global_batch_size = 64;
  o.ranks = 8;
  o.optimizer.use_distributed_optimizer = true;
  const double usual = seconds_of(o);
  o.optimizer.overlap_grad_reduce = true;
  o.optimizer.ddp_bucket_size = 1 << 24;
  const double reduced = seconds_of(o);
  EXPECT_LT(reduced, usual);
  o.optimizer.overlap_param_gather = true;
  EXPECT_LT(seconds_of(o), reduced);
}

TEST(Plan, EachGpuHasItsOwnMemory) {
  TrainOptions o = small_model();
  o.machine.memory = 2;
  const Plan one = plan_of(o);
  o.ranks = 8;
  const Plan eight = plan_of(o);
  EXPECT_EQ(one.device_memory, std::size_t{2} << 30);
  EXPECT_TRUE(one.fits() && eight.fits());
  EXPECT_EQ(one.fullest().memory.nccl, 0U);
  EXPECT_EQ(eight.fullest().memory.nccl >> 20, 374U + 24 + 486);  // NCCL, numbers, gradients
  EXPECT_EQ(one.fullest().memory.total() + eight.fullest().memory.nccl,
            eight.fullest().memory.total());
  EXPECT_EQ(eight.room(), std::size_t{2} << 30);
  o.machine.memory = 0.001;
  EXPECT_FALSE(plan_of(o).fits());
}

// The runs that fixed the constants of train/machine.h (README.md, How fast), in milliseconds.
struct MeasuredRun {
  const char* name;
  double milliseconds;
  bool llama;
  std::int64_t layers, hidden, heads, seq_length, vocab, micro_batch, micro_batches;
};
constexpr MeasuredRun kMeasured[] = {
    {"1.7B", 301.6, false, 24, 2048, 16, 4096, 131072, 4, 1},
    {"1.7B, 4 micro-batches", 1154.3, false, 24, 2048, 16, 4096, 131072, 4, 4},
    {"Llama-style 1.5B", 249.7, true, 16, 2048, 32, 4096, 128256, 4, 1},
    {"Llama-style 3.6B", 689.8, true, 28, 3072, 24, 8192, 128256, 2, 1},
    {"GPT-2 124M", 111.7, false, 12, 768, 12, 1024, 50304, 64, 1}};

TEST(Plan, GivesBackTheRunsThatFixedItsConstants) {
  for (const MeasuredRun& run : kMeasured) {
    TrainOptions o;
    o.model.num_layers = run.layers;
    o.model.hidden_size = run.hidden;
    o.model.num_attention_heads = run.heads;
    o.model.max_position_embeddings = run.seq_length;
    o.model.vocab_size = run.vocab;
    o.model.attention_dropout = o.model.hidden_dropout = 0;
    if (run.llama) {
      o.model.position_embedding_type = "rope";
      o.model.normalization = "RMSNorm";
      o.model.swiglu = o.model.untie_embeddings_and_output_weights = true;
      o.model.add_bias_linear = false;
      o.model.group_query_attention = true;
      o.model.num_query_groups = 8;
      o.model.ffn_hidden_size = 8192;
    }
    o.data.seq_length = run.seq_length;
    o.micro_batch_size = run.micro_batch;
    o.global_batch_size = run.micro_batch * run.micro_batches;
    o.compute.bf16 = true;
    o.plan = true;
    o.machine.name = "h200";
    EXPECT_NEAR(1e3 * seconds_of(o), run.milliseconds, 0.02 * run.milliseconds) << run.name;
  }
}

// --- Search -------------------------------------------------------------------------------------

TrainOptions searched() {
  TrainOptions o = small_model();
  o.micro_batch_size = 0;
  o.global_batch_size = 8;
  o.machine.memory = 8;
  return o;
}

TEST(PlanSearch, TheFirstIsFastestAndAllFit) {
  const PlanSearch search = search_plans(searched(), 4);
  ASSERT_GT(search.fitting.size(), 20U);
  EXPECT_TRUE(std::ranges::is_sorted(search.fitting, {}, &Proposal::seconds));
  for (const Proposal& p : search.fitting) {
    EXPECT_EQ(p.layout.tp * p.layout.cp * p.layout.pp * p.layout.dp, 4);
    EXPECT_LE(p.bytes, std::size_t{8} << 30);
  }
  const std::string text = search_text(search);
  EXPECT_TRUE(text.starts_with(concat("4 x h200: ", search.fitting.size(), " layouts fit\n")));
  EXPECT_NE(text.find(concat("the first: ", search.fitting.front().layout.options())), text.npos);
}

// A layout's plan is that of the run with its options.
TEST(PlanSearch, ProposesWhatThePlanSays) {
  const PlanSearch search = search_plans(searched(), 8);
  const auto pipeline = std::ranges::find_if(search.fitting, [](const Proposal& p) {
    return p.layout.tp == 2 && p.layout.pp == 2 && p.layout.chunks == 2 &&
           p.layout.sharding == "optim";
  });
  ASSERT_NE(pipeline, search.fitting.end());
  TrainOptions o = searched();
  o.ranks = 8;
  o.parallel.tensor_model_parallel_size = 2;
  o.parallel.sequence_parallel = true;
  o.parallel.pipeline_model_parallel_size = 2;
  o.pipeline.virtual_stages_per_rank = 2;
  o.micro_batch_size = pipeline->layout.micro_batch;
  o.optimizer.use_distributed_optimizer = o.optimizer.overlap_grad_reduce =
      o.optimizer.overlap_param_gather = true;
  if (pipeline->layout.recomputes)
    o.model.recompute = {.granularity = "full", .method = "uniform", .num_layers = 1};
  const Plan plan = plan_of(o);
  EXPECT_EQ(plan.fullest().memory.total(), pipeline->bytes);
  EXPECT_DOUBLE_EQ(plan.times->seconds, pipeline->seconds);
  EXPECT_NE(pipeline->layout.options().find("--num-virtual-stages-per-pipeline-rank 2 "),
            std::string::npos);
}

TEST(PlanSearch, SaysWhatIsTooLarge) {
  TrainOptions o = searched();
  o.machine.memory = 0.003;
  const PlanSearch search = search_plans(o, 4);
  const auto fitting = std::ssize(search.fitting);
  EXPECT_LT(fitting, std::ssize(search_plans(searched(), 4).fitting));
  for (const Proposal& p : search.fitting) EXPECT_LE(p.bytes, search.machine.memory);
  EXPECT_NE(search_text(search).find(" layouts: more memory than 97% of a GPU's 3 MiB\n"),
            std::string::npos);
}

TEST(PlanSearch, KeepsWhatTheOptionsSay) {
  TrainOptions o = searched();
  o.parallel.tensor_model_parallel_size = 2;
  o.micro_batch_size = 2;
  o.optimizer.sharding_strategy = "optim";
  o.model.recompute = {.granularity = "full", .method = "uniform", .num_layers = 1};
  const PlanSearch search = search_plans(o, 4);
  ASSERT_FALSE(search.fitting.empty());
  for (const Proposal& p : search.fitting) {
    EXPECT_EQ(p.layout.tp, 2);
    EXPECT_EQ(p.layout.micro_batch, 2);
    EXPECT_EQ(p.layout.sharding, "optim");
    EXPECT_FALSE(p.layout.recomputes);  // more than is asked for
  }
  o = searched();
  o.micro_batch_size = 1;
  o.parallel.pipeline_model_parallel_size = 2;
  o.pipeline.virtual_stages_per_rank = 2;
  o.optimizer.sharding_strategy = "optim_grads";
  const PlanSearch other = search_plans(o, 4);
  ASSERT_FALSE(other.fitting.empty());
  for (const Proposal& p : other.fitting) {
    EXPECT_EQ(p.layout.pp, 2);
    EXPECT_EQ(p.layout.chunks, 2);
    EXPECT_EQ(p.layout.micro_batch, 1);
    EXPECT_EQ(p.layout.sharding, "optim_grads");
  }
  o.parallel.tensor_model_parallel_size = 3;
  EXPECT_NE(search_text(search_plans(o, 4)).find("do not divide the GPUs"), std::string::npos);
}

TEST(PlanSearch, LeavesOutWhatTheOptionsExclude) {
  TrainOptions o = searched();
  o.pipeline.schedule = "zero-bubble";
  const PlanSearch search = search_plans(o, 4);
  ASSERT_FALSE(search.fitting.empty());
  for (const Proposal& p : search.fitting) EXPECT_EQ(p.layout.chunks, 1);
  EXPECT_NE(search_text(search).find(" layouts: --pipeline-schedule zero-bubble: not with virtual "
                                     "stages\n"),
            std::string::npos);
  o.pipeline.schedule = "1f1b";
  o.optimizer.ddp_bucket_size = 1 << 20;
  o.optimizer.ddp_num_buckets = 2;
  EXPECT_THROW(search_plans(o, 4), Error);  // in no layout
}

TEST(PlanSearch, TriesOneTensorRankBesideThoseThatOverlap) {
  TrainOptions o = searched();
  o.parallel.tp_comm_overlap = true;
  const PlanSearch search = search_plans(o, 4);
  for (const int tp : {1, 2})
    EXPECT_TRUE(std::ranges::count(search.fitting, tp, [](const Proposal& p) {
      return p.layout.tp;
    })) << tp;
}

TEST(PlanSearch, NeedsAGlobalBatch) {
  TrainOptions o = searched();
  o.global_batch_size.reset();
  EXPECT_THROW(search_plans(o, 8), Error);
}

}  // namespace
}  // namespace mt
