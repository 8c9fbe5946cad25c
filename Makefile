# `sam build` runs a target of this file for each function. One cargo build serves all of them.
# ARCHITECTURE must equal the template's parameter Architecture: `ARCHITECTURE=x86_64 sam build`.

ARCHITECTURE ?= arm64
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# A directory other than cargo-lambda's default, target/lambda, in which cargo stores the binaries of `--profile lambda`
# under the same names.
OUT := $(TARGET_DIR)/functions
BUILT := $(OUT)/.built-$(ARCHITECTURE)
SOURCES := Cargo.toml Cargo.lock $(shell find artefacts domain functions shared -type f)

ARCHITECTURE_FLAG_arm64 := --arm64
ARCHITECTURE_FLAG_x86_64 := --x86-64

BINARY_ChargesFunction := charges
BINARY_PaymentsFunction := payments
BINARY_WalletsFunction := wallets
BINARY_WebhooksFunction := webhooks
BINARY_MedFunction := med
BINARY_ApiKeysFunction := api-keys
BINARY_CheckoutFunction := checkout
BINARY_AcquirerEventsFunction := acquirer-events
BINARY_AcquirerWorkerFunction := acquirer-worker
BINARY_EventDispatcherFunction := event-dispatcher
BINARY_WebhookWorkerFunction := webhook-worker
BINARY_MailerFunction := mailer
BINARY_SchedulerFunction := scheduler

# The stamp file is valid until a source changes, so the first call builds all functions and the other calls only copy.
$(BUILT): $(SOURCES)
	cargo lambda build --profile lambda --locked --workspace --exclude local --exclude admin --bins --lambda-dir $(OUT) $(ARCHITECTURE_FLAG_$(ARCHITECTURE))
	rm -f $(OUT)/.built-*
	touch $@

build-%: $(BUILT)
	cp $(OUT)/$(BINARY_$*)/bootstrap $(ARTIFACTS_DIR)/bootstrap
