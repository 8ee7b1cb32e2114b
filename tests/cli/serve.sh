# For the cases of mt-generate serve: `. "$(dirname "$0")/../../serve.sh"` gives
#   serve OPTION...   starts a server, whose address is then $url and its process $server; what it says is in `log`
#   ask ROUTE CURL_OPTION...   the body of its answer and then its status, a line each
#   stop_server       has it end, and prints its exit code if that is not 0
command -v curl > /dev/null || { echo "there is no curl" >&2; exit 125; }
serve() {
  : > log  # of a server before it
  mt-generate serve --port 0 "$@" > served 2>> log &
  server=$!
  trap 'kill "$server" 2> /dev/null' EXIT
  for ((i = 0; i < 300; ++i)); do
    url=$(sed -n 's/^serving url=\([^ ]*\).*/\1/p' log)
    [[ $url ]] && return
    kill -0 "$server" 2> /dev/null || break
    sleep 0.1
  done
  echo "no server:"; cat log; exit 1
}
ask() {
  local route=$1
  shift
  curl -sS --noproxy '*' -w '\n%{http_code}\n' "$@" "$url$route" | sed '/^$/d'
}
stop_server() {
  kill -TERM "$server"
  wait "$server" || echo "the server ended with $?"
  trap - EXIT
}
