# Draws a wake as a moving picture, from the lines of one wake in the form of `make demo`: `make moving-picture`.
# The colours are those of the other pictures of the documents.

$2 == "ms" && /client: request sent/ { began = 1 }
began && $2 == "ms" && /spec.replicas: [1-9]/ && written == "" { written = $1 }
began && $2 == "ms" && /all containers running/ && running == "" { running = $1 }
began && $2 == "ms" && /client: response received/ && received == "" { received = $1 }

# The share of the loop at a moment of the picture, in percent.
function share(seconds) { return sprintf("%.2f%%", 100 * seconds / LOOP) }
# The moment at which a time of the wake, in ms, is shown.
function shown(ms) { return SENT + ms * WAKE / received }
function between(name, off, on, until, end) {
  printf "    @keyframes %s { 0%%, %s { opacity: %s } %s, %s { opacity: %s } %s, 100%% { opacity: %s } }\n", \
    name, share(on - 0.01), off, share(on), share(until), 1 - off, share(until + 0.3), end
}
function shows(name, on, until) { between(name, 0, on, until, 0) }

END {
  if (written == "" || running == "" || received == "") {
    print "no complete wake in the recording" > "/dev/stderr"
    exit 1
  }
  LOOP = 14; SENT = 2; WAKE = 4.5; TRAVEL = 0.6
  answered = SENT + WAKE; idle = answered + 2; zero = idle + 2.5
  print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 250\" role=\"img\" aria-labelledby=\"t d\""
  print "     font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"15\">"
  print "  <title id=\"t\">A workload sleeps, a request wakes it, and it sleeps again</title>"
  printf "  <desc id=\"d\">An activator holds the request to a workload at zero. The size is written after %.0f ms, the app runs after %.0f ms, and the client has the response after %.0f ms. Without requests the workload goes back to zero.</desc>\n", written, running, received
  print "  <style>"
  print "    .page { fill: #ffffff; } .box { fill: #f2f5f9; stroke: #8494a7; stroke-width: 1.5; }"
  print "    .ours { fill: #e3effd; stroke: #2b6cb0; stroke-width: 1.5; }"
  print "    .place { fill: none; stroke: #8494a7; stroke-dasharray: 5 4; stroke-width: 1.5; }"
  print "    text { fill: #1a2433; text-anchor: middle; } .note { font-size: 14px; fill: #4a5a6d; } .left { text-anchor: start; }"
  print "    .line { stroke: #8494a7; stroke-width: 1.5; fill: none; } .request { fill: #c05621; } .app { fill: #2f855a; }"
  print "    rect.app + text { fill: #ffffff; }"
  print "    @media (prefers-color-scheme: dark) {"
  print "      .page { fill: #10161f; } .box { fill: #1c2632; stroke: #6c7f94; } .ours { fill: #16304f; stroke: #63a4ec; }"
  print "      .place, .line { stroke: #6c7f94; } text { fill: #e6edf5; } .note { fill: #a7b6c6; } .request { fill: #f0935a; }"
  print "    }"
  printf "    .moves { animation: %ds linear infinite; }\n", LOOP
  # The request: to the activator, held, to the pod when the app runs, and back.
  printf "    @keyframes request { 0%%, %s { transform: translate(114px, 130px); opacity: 0 } %s { transform: translate(114px, 130px); opacity: 1 } ", share(SENT - 0.01), share(SENT)
  printf "%s, %s { transform: translate(445px, 130px) } ", share(SENT + TRAVEL), share(shown(running))
  printf "%s { transform: translate(690px, 130px) } %s { transform: translate(114px, 130px); opacity: 1 } %s, 100%% { transform: translate(114px, 130px); opacity: 0 } }\n", share((shown(running) + answered) / 2), share(answered), share(answered + 0.3)
  shows("held", SENT + TRAVEL, shown(running))
  shows("pending", shown(written), shown(running) - 0.3)
  shows("app", shown(running), zero)
  shows("s1", shown(written) + TRAVEL, answered - 0.3)
  shows("s2", answered, idle)
  shows("s3", idle + 0.3, zero)
  between("s0", 1, SENT + TRAVEL, zero, 1)
  for (n = split("request held pending app s0 s1 s2 s3", names, " "); n > 0; n--)
    printf "    .%s { animation-name: %s; }\n", names[n], names[n]
  print "    .moves:not(.s0) { opacity: 0; }"
  print "    @media (prefers-reduced-motion: reduce) { .moves { animation: none; } .s0 { opacity: 0; } .app, .s2 { opacity: 1 !important; } }"
  print "  </style>"
  print "  <rect class=\"page\" width=\"900\" height=\"250\" rx=\"10\"/>"
  print "  <path class=\"line\" d=\"M114 130H630\"/>"
  print "  <rect class=\"box\" x=\"24\" y=\"106\" width=\"90\" height=\"48\" rx=\"6\"/><text x=\"69\" y=\"135\">client</text>"
  print "  <rect class=\"box\" x=\"194\" y=\"106\" width=\"90\" height=\"48\" rx=\"6\"/><text x=\"239\" y=\"135\">Service</text>"
  print "  <rect class=\"ours\" x=\"380\" y=\"106\" width=\"130\" height=\"48\" rx=\"6\"/><text x=\"445\" y=\"98\" class=\"note\">activator</text>"
  print "  <rect class=\"place\" x=\"630\" y=\"66\" width=\"246\" height=\"128\" rx=\"8\"/><text class=\"note\" x=\"753\" y=\"58\">pods of Deployment web</text>"
  print "  <g class=\"moves pending\"><rect class=\"place\" x=\"690\" y=\"96\" width=\"126\" height=\"68\" rx=\"6\"/><text x=\"753\" y=\"135\">starts</text></g>"
  print "  <g class=\"moves app\"><rect class=\"app\" x=\"690\" y=\"96\" width=\"126\" height=\"68\" rx=\"6\"/><text x=\"753\" y=\"135\">web</text></g>"
  print "  <text class=\"moves held note\" x=\"445\" y=\"174\">holds the request</text>"
  print "  <circle class=\"moves request\" r=\"9\"/>"
  print "  <text class=\"moves s0\" x=\"450\" y=\"228\">0 pods: the workload sleeps</text>"
  printf "  <text class=\"moves s1\" x=\"450\" y=\"228\">size 0 → 1, written %.0f ms after the request</text>\n", written
  printf "  <text class=\"moves s2\" x=\"450\" y=\"228\">200 OK, %.0f ms after the request, of which %.0f for the start of the pod</text>\n", received, running - written
  print "  <text class=\"moves s3\" x=\"450\" y=\"228\">no request for a minute: size 1 → 0</text>"
  printf "  <text class=\"note left\" x=\"24\" y=\"32\">A wake, shown %.0f times slower than it is</text>\n", WAKE * 1000 / received
  print "</svg>"
}
