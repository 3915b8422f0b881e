# The image holds one static binary and nothing else: no shell, no certificates, no home. It runs as Argo CD's sidecars do.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=""
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X copyhold.dev/copyhold/cmd.version=${VERSION}" -o /out/copyhold ./cmd/copyhold

FROM scratch
COPY --from=build /out/copyhold /usr/local/bin/copyhold
COPY plugin/plugin.yaml /home/argocd/cmp-server/config/plugin.yaml
USER 999:999
WORKDIR /repository
ENTRYPOINT ["/usr/local/bin/copyhold"]
