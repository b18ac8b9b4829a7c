// Children that try candidates and proposers, whatever they do: shell scripts in the place of both.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "lab/evolve/children.hpp"
#include "lab/evolve/evolve.hpp"
#include "lab/process_ends.hpp"

namespace fovea::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTriedKernel = "layer_norm_bf16_3";
/// Valid JSON that is nested 500,000 deep.
constexpr const char* kNested =
    "head -c 500000 /dev/zero | tr '\\0' '['; head -c 500000 /dev/zero | tr '\\0' ']'";

class ChildrenTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::path(testing::TempDir()) / "fovea-children-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string file(const char* name) const { return (folder_ / name).string(); }

  /// An evaluator whose program is this script.
  [[nodiscard]] ChildEvaluator::Setup evaluator(const std::string& script,
                                                double max_seconds = 60) const {
    std::ofstream(file("program")) << "#!/bin/sh\n" << script << '\n';
    fs::permissions(file("program"), fs::perms::owner_all);
    return {
        .program = file("program"),
        .question = {"layer_norm", "--case", "one"},
        .sources = &sources_,
        .spaces = {{.kernel = kTriedKernel, .plan = "", .family = "", .values = {}, .ranges = {}}},
        .folder = "",
        .max_seconds = max_seconds,
        .stop = &stop_};
  }
  [[nodiscard]] CandidateOutcome tried(const std::string& script, double max_seconds = 60) const {
    return ChildEvaluator(evaluator(script, max_seconds)).evaluate(variant_, 7);
  }

  /// A proposer that is this script.
  [[nodiscard]] ProgramProposer::Setup proposer(const std::string& script) const {
    return {.command = {"sh", "-c", script},
            .task = {{"kind", "task"}},
            .sources = &sources_,
            .max_seconds = 60,
            .stop = &stop_};
  }

  const KernelSources& sources_ = KernelSources::built_in();
  Variant variant_ = {
      .kernel = kTriedKernel, .values = sources_.kernel(kTriedKernel).values, .files = {}};
  std::atomic<bool> stop_ = false;
  fs::path folder_;
};

TEST_F(ChildrenTest, AreToldWhatToTryAndWhenToEndByThemselves) {
  const CandidateOutcome outcome =
      tried("echo \"$@\" > " + file("arguments") +
            "\necho '{\"valid\":true,\"seconds\":1e-3,\"baseline_seconds\":2e-3}'");
  EXPECT_EQ(outcome.valid, true);
  EXPECT_EQ(outcome.speed_up, 2);
  EXPECT_EQ(first_line(file("arguments")),
            fmt::format("kernel try layer_norm --case one --json --parameters {{}} --kernel {} "
                        "--seed 7 --most-seconds 65",
                        kTriedKernel));
}

TEST_F(ChildrenTest, ThatSayNothingUsefulAreInvalidCandidates) {
  const CandidateOutcome silent = tried("sleep 600", 0.5);
  EXPECT_EQ(silent.failed_at, "process");
  EXPECT_EQ(silent.why, "its process did not end within 0.5 s");
  const CandidateOutcome crashed = tried("echo junk; echo no GPU >&2; exit 3");
  EXPECT_EQ(crashed.failed_at, "process");
  EXPECT_EQ(crashed.why, "its process ended with exit code 3: no GPU");
  EXPECT_EQ(tried(fmt::format("printf '{{\"valid\":true,\"x\":'; {}; echo '}}'", kNested)).why,
            "its process ended with exit code 0");
}

TEST_F(ChildrenTest, ThatPrintWithoutAnEndAreEnded) {
  const std::string begun = "echo $$ > " + file("number") + "; ";
  EXPECT_EQ(tried(begun + "while true; do echo x; done", 0.2).why,
            "its process did not end within 0.2 s");
  EXPECT_TRUE(process_ends(first_line(file("number"))));
  fs::remove(file("number"));
  EXPECT_EQ(tried(begun + "exec yes").why, "its process printed more than 4 MiB");
  EXPECT_TRUE(process_ends(first_line(file("number"))));
}

TEST_F(ChildrenTest, EndWhenTheEvolutionIsToStop) {
  for (const std::string work : {"sleep 600", "while true; do echo x; done"}) {
    fs::remove(file("number"));
    stop_ = false;
    std::thread setter([&] {
      (void)first_line(file("number"));
      stop_ = true;
    });
    EXPECT_THROW((void)tried("echo $$ > " + file("number") + "; " + work), Interrupted) << work;
    setter.join();
    EXPECT_TRUE(process_ends(first_line(file("number"))));
  }
}

TEST_F(ChildrenTest, ProfileAVariant) {
  std::string missing;
  const auto findings = [&](const std::string& script) {
    missing.clear();
    return ChildEvaluator(evaluator(script)).findings(variant_, missing);
  };
  const std::vector<Hint> hints = findings(
      "test \"$2\" = profile && echo '[{\"findings\":[{\"rule\":\"r\",\"means\":\"m\","
      "\"try\":\"t\",\"parameter\":\"stages\",\"strength\":2}]},{\"findings\":[]}]'");
  ASSERT_EQ(hints.size(), 1U);
  EXPECT_EQ(hints[0].rule + hints[0].means + hints[0].attempt + hints[0].parameter, "rmtstages");
  EXPECT_EQ(hints[0].strength, 2);
  EXPECT_EQ(missing, "");
  for (const std::string said :
       {"echo junk", "echo '[1]'", "echo '{\"findings\":1}' '{'", kNested}) {
    EXPECT_TRUE(findings(said + "; echo no counters >&2; exit 3").empty()) << said;
    EXPECT_EQ(missing, "`fovea kernel profile` ended with exit code 3: no counters");
  }
}

TEST_F(ChildrenTest, AProposerThatAlwaysEndsIsStartedAFewTimes) {
  ProgramProposer ends(proposer("exit 1"));
  for (int i = 0; i < ProgramProposer::kMaxStarts; ++i) {
    const auto proposal = ends.propose({});
    ASSERT_TRUE(proposal.has_value());
    EXPECT_EQ(proposal->refused, "the proposer ended with exit code 1");
  }
  EXPECT_FALSE(ends.propose({}).has_value());
  EXPECT_EQ(ends.why_none(), "the proposer was started 5 times");
}

/// Measures nothing.
class AlwaysValid : public Evaluator {
 public:
  CandidateOutcome evaluate(const Variant& /*variant*/, std::uint64_t /*seed*/) override {
    return {.valid = true, .failed_at = "", .why = "", .speed_up = 1};
  }
  std::vector<Hint> findings(const Variant& /*variant*/, std::string& /*missing*/) override {
    return {};
  }
};

TEST_F(ChildrenTest, AProposerThatAlwaysEndsExhaustsTheProposals) {
  EvolveSetup setup;
  setup.spaces = evaluator("").spaces;
  setup.spaces.front().values = variant_.values;
  setup.start = variant_;
  setup.now = [] { return 0.0; };
  setup.header = {{"kind", "run"}};
  AlwaysValid valid;
  ProgramProposer ends({.command = {"false"},
                        .task = {{"kind", "task"}},
                        .sources = &sources_,
                        .max_seconds = 60,
                        .stop = {}});
  Ledger ledger(file("ledger.jsonl"), false);
  const EvolveReport report = evolve(setup, valid, ends, ledger);
  EXPECT_EQ(report.why, "exhausted");
  EXPECT_EQ(report.trials.size(), 1U + ProgramProposer::kMaxStarts);
}

TEST_F(ChildrenTest, WhyAProposerEndedIsToldWhenItIsAskedAgain) {
  ProgramProposer once(proposer("read task; echo '{\"parameters\":{}}'; echo $$ > " +
                                file("number") + "; echo it broke >&2; exit 1"));
  std::vector<Candidate> trials(1);
  trials[0].proposal.variant = variant_;
  Situation situation;
  const std::vector<TuningSpace> spaces = evaluator("").spaces;
  situation.spaces = spaces;
  situation.trials = trials;
  const auto first = once.propose(situation);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->refused, "");
  ASSERT_TRUE(process_ends(first_line(file("number"))));
  const auto second = once.propose(situation);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->refused, "the proposer ended with exit code 1: it broke");
}

TEST_F(ChildrenTest, ANestedAnswerIsRefused) {
  std::vector<Candidate> trials(1);
  trials[0].proposal.variant = variant_;
  Situation situation;
  const std::vector<TuningSpace> spaces = evaluator("").spaces;
  situation.spaces = spaces;
  situation.trials = trials;
  ProgramProposer deep(
      proposer(fmt::format("read task; printf '{{\"parameters\":'; {}; echo '}}'; cat", kNested)));
  const auto proposal = deep.propose(situation);
  ASSERT_TRUE(proposal.has_value());
  EXPECT_NE(proposal->refused.find("JSON nested more than 32 levels deep"), std::string::npos)
      << proposal->refused;
  const Proposal twice =
      proposal_from(R"({"kernel":"a","kernel":"b","parameters":{}})", situation, sources_);
  EXPECT_NE(twice.refused.find("key \"kernel\" appears twice"), std::string::npos) << twice.refused;
}

}  // namespace
}  // namespace fovea::lab
