# sluice - build, test, measure.  `make help` lists the targets.
#
# Objects and archives go to build/<CONFIG>/, programs people run to build/.  Every folder of src/ links
# into its own archive; every tests/unit/<folder>/ into one test binary.  New files are found by name.
#   CONFIG  release (default) | debug | asan | tsan
#   ARCH    -march value, recorded in outputs; same seed gives the same bits on one ARCH
#   CC      gcc or clang

CONFIG ?= release
ARCH   ?= native
CC      = gcc
B      := build/$(CONFIG)

VERSION := 0.1.0
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wformat=2 -Wcast-qual -Wstrict-prototypes \
        -Wmissing-prototypes -Wimplicit-fallthrough
ifdef CI
WARN += -Werror
endif

OPT_release := -O3 -DNDEBUG -fno-omit-frame-pointer -D_FORTIFY_SOURCE=2 -fstack-protector-strong
OPT_debug   := -O1 -g -fno-omit-frame-pointer
OPT_asan    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
OPT_tsan    := -O1 -g -fno-omit-frame-pointer -fsanitize=thread

CPPFLAGS := -Isrc -I. -I$(B)/gen -D_GNU_SOURCE
CFLAGS   := -std=c17 $(WARN) $(OPT_$(CONFIG)) -g -march=$(ARCH) -ffp-contract=off -fPIE
LDFLAGS  := -pie -Wl,-z,relro,-z,now $(filter -fsanitize%,$(OPT_$(CONFIG)))
LDLIBS   := -ldnnl -lfyaml -lcjson -llapacke -lnlopt -lcurl -lmicrohttpd -lgnutls -lsqlite3 -lzstd -lz -lpthread -lm

# Folders, callers first: the static link order and the include rules agree (src/LAYERS).
LAYERS := cli daemon train execute profile collect store prom kube net report sim decide forecast history rl nn model base
LIBS   := $(foreach d,$(LAYERS),$(if $(wildcard src/$(d)/*.c),$(B)/lib$(d).a))

obj = $(patsubst %.c,$(B)/%.o,$(1))
comma := ,

.PHONY: all help demo demo-live check check-long bench eval clean
all: build/sluice

help:
	@echo "make            build/sluice"
	@echo "make demo       the whole story on built-in data, writes report.html"
	@echo "make demo-live  two replicas on a stand-in cluster with a real Prometheus, in accelerated time"
	@echo "make check      every test, sanitizers and fuzzers briefly"
	@echo "make check-long the same, longer"
	@echo "make bench      speed, one JSON object per line   (ONLY=NAME for one)"
	@echo "make eval       decision quality against tuned rules and bounds"

build/sluice: $(B)/sluice
	@mkdir -p build && cp -f $< $@

$(B)/sluice: $(call obj,src/main.c) $(LIBS)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(B)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

define archive_rule
$(B)/lib$(1).a: $(call obj,$(wildcard src/$(1)/*.c))
	@rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach d,$(LAYERS),$(eval $(call archive_rule,$(d))))

# The commit changes without any source changing: its own file, rewritten only when it differs.
$(B)/gen/build_info.h: FORCE
	@mkdir -p $(@D)
	@printf '#define BUILD_VERSION "%s"\n#define BUILD_COMMIT "%s"\n#define BUILD_ARCH "%s"\n#define BUILD_CONFIG "%s"\n' \
	  '$(VERSION)' '$(COMMIT)' '$(ARCH)' '$(CONFIG)' > $@.new
	@cmp -s $@.new $@ && rm -f $@.new || mv -f $@.new $@
FORCE:
$(call obj,src/base/build.c): $(B)/gen/build_info.h

# ---- tests ---------------------------------------------------------------------------------------
TEST_DIRS := $(sort $(dir $(wildcard tests/unit/*/*_test.c tests/prop/*_test.c tests/num/*_test.c \
               tests/integration/*_test.c)))
TEST_BINS := $(foreach d,$(TEST_DIRS),$(B)/$(patsubst %/,%,$(d))/run)

# What stands in for a cluster: an API server and an exporter, in the test's process or as programs.
STANDINS := live apiserver exporter
STANDIN_LIBS := $(foreach d,$(STANDINS),$(if $(wildcard tests/$(d)/*.c),$(B)/tests/lib$(d).a))
define standin_rule
$(B)/tests/lib$(1).a: $(call obj,$(filter-out tests/$(1)/main.c,$(wildcard tests/$(1)/*.c)))
	@rm -f $$@ && ar rcs $$@ $$^
$(B)/$(1): $(call obj,tests/$(1)/main.c) $(B)/tests/lib$(1).a $(LIBS)
	$$(CC) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS)
endef
$(foreach d,$(STANDINS),$(eval $(call standin_rule,$(d))))
.PHONY: standins
standins: $(foreach d,$(STANDINS),$(if $(wildcard tests/$(d)/main.c),$(B)/$(d)))

# Fallible calls that tests/support/fail.c makes fail on demand; the program itself has no hook for it.
WRAPPED := try_zero try_grow try_zero_aligned mem_zero mem_grow mem_strdup sqlite3_step open read write fsync linkat rename close
TEST_LDFLAGS := $(addprefix -Wl$(comma)--wrap=,$(WRAPPED))
define test_rule
$(B)/$(patsubst %/,%,$(1))/run: $(call obj,$(wildcard $(1)*_test.c)) $(call obj,tests/support/main.c $(filter-out tests/support/main.c,$(wildcard tests/support/*.c))) $(STANDIN_LIBS) $(LIBS)
	$$(CC) $$(LDFLAGS) $$(TEST_LDFLAGS) -o $$@ $$^ -lcmocka $$(LDLIBS)
endef
$(foreach d,$(TEST_DIRS),$(eval $(call test_rule,$(d))))

# Some run the program of their own configuration.
$(B)/tests/integration/run: | $(B)/sluice standins

.PHONY: tests test-bins print-test-bins
test-bins: $(TEST_BINS)
print-test-bins:
	@echo $(TEST_BINS)
tests: build/sluice $(TEST_BINS)
	tools/run_tests $(TEST_BINS)

check:
	tools/check quick
check-long:
	tools/check long

# ---- fuzzing (clang's libFuzzer) -------------------------------------------------------------------
FUZZERS := $(patsubst tests/fuzz/%_fuzz.c,%,$(wildcard tests/fuzz/*_fuzz.c))
FUZZ_CFLAGS := -std=c17 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -ffp-contract=off
FUZZ_SRC := $(filter-out src/main.c,$(foreach d,$(LAYERS),$(wildcard src/$(d)/*.c)))
build/fuzz/src/%.o: src/%.c $(B)/gen/build_info.h
	@mkdir -p $(@D)
	clang $(CPPFLAGS) $(FUZZ_CFLAGS) -MMD -MP -c -o $@ $<
build/fuzz/%: tests/fuzz/%_fuzz.c $(patsubst src/%.c,build/fuzz/src/%.o,$(FUZZ_SRC))
	clang $(CPPFLAGS) $(FUZZ_CFLAGS) -o $@ $^ $(LDLIBS)
.PHONY: fuzzers
fuzzers: $(addprefix build/fuzz/,$(FUZZERS))

# ---- speed and quality -----------------------------------------------------------------------------
BENCH_BINS := $(patsubst %.c,$(B)/%,$(wildcard bench/*_bench.c))
$(B)/bench/%_bench: $(B)/bench/%_bench.o $(B)/bench/bench.o $(LIBS)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
# The live half is measured in a small cluster of the tests.
$(B)/bench/live_bench: $(B)/bench/live_bench.o $(B)/bench/bench.o $(call obj,$(filter-out tests/support/main.c tests/support/alloc_count.c,$(wildcard tests/support/*.c))) $(STANDIN_LIBS) $(LIBS)
	$(CC) $(LDFLAGS) $(TEST_LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)
.PRECIOUS: $(B)/bench/%.o
.PHONY: bench-bins
bench-bins: $(BENCH_BINS)
bench: build/sluice standins $(BENCH_BINS)
	@ONLY='$(ONLY)' tools/run_bench $(BENCH_BINS)

build/eval_summary: $(call obj,eval/summary.c) $(LIBS)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
eval: build/sluice build/eval_summary
	@tools/run_eval $(ONLY)
demo: build/sluice
	build/sluice demo -o report.html
demo-live: build/sluice standins
	@tools/demo_live

clean:
	rm -rf build

-include $(shell find $(B) build/fuzz -name '*.d' 2>/dev/null)
