# The service on one machine, in a container:
#
#   docker build -t payments .
#   docker run --rm -p 127.0.0.1:3000:3000 -v payments:/state payments
#
# Options of `cargo run` can follow the image's name. docs/laptop.md has more.
#
# `scripts/image` builds and tries this file on machines that reach no registry: with stand-ins for both base images,
# whose `cargo` copies programs that were compiled outside. So it does not try the compilation in the first stage.
ARG BUILDER=rust:1.94.1-bookworm@sha256:6ae102bdbf528294bc79ad6e1fae682f6f7c2a6e6621506ba959f9685b308a55
ARG RUNTIME=debian:bookworm-slim@sha256:4724b8cc51e33e398f0e2e15e18d5ec2851ff0c2280647e1310bc1642182655d

FROM ${BUILDER} AS builder
WORKDIR /source
COPY . .
RUN cargo build --release --locked --bin local --bin admin

FROM ${RUNTIME}
COPY --from=builder /source/target/release/local /source/target/release/admin /usr/local/bin/
# The certificates by which webhooks by https are verified.
COPY --from=builder /etc/ssl/certs /etc/ssl/certs
RUN mkdir /state && chown 1000:1000 /state
USER 1000:1000
# The state is in /state/.local. `docker exec CONTAINER local trigger charge.paid` finds the service there.
WORKDIR /state
VOLUME /state
EXPOSE 3000
# The machine that runs the container. Linux needs `--add-host host.docker.internal:host-gateway`.
ENV WEBHOOK_LOCAL_NAMES=host.docker.internal
# Requests to /_local/ must name localhost, a loopback address or a host of --allow-host, as outside of a container.
ENTRYPOINT ["local", "--address", "0.0.0.0"]
