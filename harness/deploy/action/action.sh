#!/usr/bin/env bash
# The work of action.yml: `start` installs and starts the server, `transcript` shows what happened on it.
set -euo pipefail

folder=${RUNNER_TEMP:?is set by GitHub}/plumbline
kubeconfig=$folder/kubeconfig

fail() {
  echo "::error title=plumbline::$1"
  exit 1
}

start() {
  mkdir -p "$folder/bin"
  local program=${INPUT_PROGRAM:-} version=${INPUT_VERSION:-} flags ready='' process
  if [ -n "$program" ]; then
    [ -x "$program" ] || fail "the input program, $program, is not a program that can be run"
  else
    # An action that is pinned to a release runs that release; a branch or a commit names none.
    case "$version:${GITHUB_ACTION_REF:-}" in
      :v[0-9]*.*.*) version=$GITHUB_ACTION_REF ;;
      :*) version=latest ;;
    esac
    PLUMBLINE_VERSION=$version PLUMBLINE_DIR=$folder/bin sh "$(dirname "$0")/../install.sh" ||
      fail "release $version cannot be installed; the lines above say why"
    program=$folder/bin/plumbline
  fi
  read -ra flags <<<"${INPUT_FLAGS:-}"
  # The program's process opens these later than they are read here.
  : >"$folder/ready"
  : >"$folder/log"
  # It outlives this step; the runner ends it after the job.
  nohup "$program" serve --kubeconfig "$kubeconfig" "${flags[@]}" >"$folder/ready" 2>"$folder/log" </dev/null &
  process=$!
  for _ in $(seq 600); do
    ready=$(cat "$folder/ready")
    [ -z "$ready" ] || break
    kill -0 "$process" 2>/dev/null || break
    sleep 0.05
  done
  if [ -z "$ready" ]; then
    fail "plumbline serve ${INPUT_FLAGS:-} does not start: $(grep -E '^(plumbline|error): ' "$folder/log" | tail -1)"
  fi
  local url=${ready#ready }
  url=${url%% *}
  echo "KUBECONFIG=$kubeconfig" >>"$GITHUB_ENV"
  dirname "$(realpath "$program")" >>"$GITHUB_PATH"
  printf 'url=%s\nkubeconfig=%s\n' "$url" "$kubeconfig" >>"$GITHUB_OUTPUT"
  echo "started=$url" >>"$GITHUB_STATE"
  echo "$ready"
}

transcript() {
  local token
  token=$(sed -n 's/^ *token: "\(.*\)"$/\1/p' "$kubeconfig")
  sed -n 's/^ *certificate-authority-data: //p' "$kubeconfig" | base64 --decode >"$folder/ca.pem"
  echo "::group::Requests and changes of the cluster"
  curl --silent --show-error --fail --max-time 30 --cacert "$folder/ca.pem" --header "Authorization: Bearer $token" \
    "${STATE_started:?is set by start}/plumbline/transcript?format=text" || echo "the server does not reply; its log:"
  echo "::endgroup::"
  echo "::group::Log of plumbline serve"
  cat "$folder/log"
  echo "::endgroup::"
}

"$1"
