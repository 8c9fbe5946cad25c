# `sam build` runs the target `build-<logical id>` of this file for each function. One cargo build compiles
# all functions. ARCHITECTURE must equal the template's parameter Architecture. Example:
# `ARCHITECTURE=x86_64 sam build`.

ARCHITECTURE ?= arm64

# `PROFILE=dev sam build` copies the functions that `cargo build` compiles for this machine's architecture. They
# are for tests, because they are slow and large: they share the libraries of `cargo test`, so only the
# functions themselves are compiled.
PROFILE ?= lambda
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# The directory of the built functions. cargo-lambda's default, target/lambda, can't be used: cargo itself
# stores the binaries of `--profile lambda` there, under the same names.
OUT := $(TARGET_DIR)/functions
BUILT := $(OUT)/.built-$(ARCHITECTURE)
SOURCES := Cargo.toml Cargo.lock $(shell find acquirers artefacts domain effects functions money pages services shared -type f)

ARCHITECTURE_FLAG_arm64 := --arm64
ARCHITECTURE_FLAG_x86_64 := --x86-64

BINARY_ChargesFunction := charges
BINARY_PaymentsFunction := payments
BINARY_WalletsFunction := wallets
BINARY_WebhooksFunction := webhooks
BINARY_MedFunction := med
BINARY_ApiKeysFunction := api-keys
BINARY_CheckoutFunction := checkout
BINARY_DashboardFunction := dashboard
BINARY_AcquirerEventsFunction := acquirer-events
BINARY_BankNotificationsFunction := bank-notifications
BINARY_AcquirerWorkerFunction := acquirer-worker
BINARY_EventDispatcherFunction := event-dispatcher
BINARY_WebhookWorkerFunction := webhook-worker
BINARY_MailerFunction := mailer
BINARY_ReportsFunction := reports
BINARY_ReportsWorkerFunction := reports-worker
BINARY_SchedulerFunction := scheduler
BINARY_LedgerVerifierFunction := ledger-verifier

# The first call builds all functions and writes the stamp file. Until a source changes, later calls only
# copy.
$(BUILT): $(SOURCES)
	cargo lambda build --profile lambda --locked --workspace --exclude local --exclude admin --exclude bank --exclude world --exclude faults --bins --lambda-dir $(OUT) $(ARCHITECTURE_FLAG_$(ARCHITECTURE))
	rm -f $(OUT)/.built-*
	touch $@

ifeq ($(PROFILE),dev)
build-%:
	cargo build --locked --quiet --workspace --bins
	strip -o $(ARTIFACTS_DIR)/bootstrap $(TARGET_DIR)/debug/$(BINARY_$*)
else
build-%: $(BUILT)
	cp $(OUT)/$(BINARY_$*)/bootstrap $(ARTIFACTS_DIR)/bootstrap
endif
