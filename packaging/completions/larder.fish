# Completion of larder's command line for fish.
set -l commands serve check cache why explain purge top log doctor import varnishd varnishstat varnishlog varnishncsa help
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a serve -d 'Serve a folder, PHP included'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a check -d 'Check the configuration'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a cache -d 'What is on disk'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a why -d 'Why requests were no hits'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a explain -d 'What becomes of a request, and why'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a purge -d 'Purge pages'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a top -d 'What a running server does'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a log -d 'Follow requests'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a doctor -d 'What on this machine will hurt'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a import -d 'What of nginx or Varnish works here'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a varnishd -d 'Run a VCL'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a varnishstat -d 'Counters of larder varnishd'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a varnishlog -d 'The log, by transactions'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a varnishncsa -d 'The log, a line a request'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -a help -d 'Help'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -s t -d 'Check the configuration'
complete -c larder -n "not __fish_seen_subcommand_from $commands" -s s -x -a 'stop quit reopen reload' -d 'Send a signal'
complete -c larder -s c -r -d 'Configuration file'
complete -c larder -n "__fish_seen_subcommand_from serve why explain purge top" -l listen -x -d 'Address of larder serve'
complete -c larder -n "__fish_seen_subcommand_from serve" -l print-config -d 'Print the configuration'
complete -c larder -n "__fish_seen_subcommand_from cache" -a 'ls stat bans verify clear'
complete -c larder -n "__fish_seen_subcommand_from import" -a 'nginx varnish'
complete -c larder -n "__fish_seen_subcommand_from import" -l write -r -d 'Files for a switch-over'
complete -c larder -n "__fish_seen_subcommand_from why explain top log doctor import" -l json -d 'As JSON'
complete -c larder -n "__fish_seen_subcommand_from explain" -s X -x -a 'GET HEAD POST PURGE' -d 'Method'
complete -c larder -n "__fish_seen_subcommand_from explain" -s H -x -d 'A field'
complete -c larder -n "__fish_seen_subcommand_from explain" -l from -x -d 'Address of the client'
complete -c larder -n "__fish_seen_subcommand_from doctor" -l no-disk-test -d 'Write nothing'
complete -c larder -n "__fish_seen_subcommand_from doctor import" -l root -r -d 'Another machine'
for option in tag prefix match host ban zone
    complete -c larder -n "__fish_seen_subcommand_from purge" -l $option -x
end
complete -c larder -n "__fish_seen_subcommand_from purge" -l all -d 'Everything'
complete -c larder -n "__fish_seen_subcommand_from purge" -l soft -d 'Pages are stale'
for option in host url match method status from slow
    complete -c larder -n "__fish_seen_subcommand_from log" -l $option -x
end
complete -c larder -n "__fish_seen_subcommand_from log" -l cache -x -a 'hit miss expired stale updating revalidated bypass pass none'
complete -c larder -n "__fish_seen_subcommand_from log" -l failed -d 'Failures'
complete -c larder -n "__fish_seen_subcommand_from log" -l kept -d 'What was kept'
