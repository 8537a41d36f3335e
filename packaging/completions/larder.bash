# Completion of larder's command line for bash.
_larder() {
    local cur prev words cword
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD-1]}
    local commands='serve check cache why explain purge top cluster log doctor import shadow profile varnishd varnishstat varnishlog varnishncsa help'
    case $prev in
    -s) COMPREPLY=($(compgen -W 'stop quit reopen reload' -- "$cur")); return ;;
    -c | -e | -f | --pid | --log) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    -p | -n | serve | --root | --write) COMPREPLY=($(compgen -d -- "$cur")); return ;;
    -X) COMPREPLY=($(compgen -W 'GET HEAD POST PURGE' -- "$cur")); return ;;
    esac
    if [ "${COMP_WORDS[1]}" = log ] && [ "$prev" = --cache ]; then
        COMPREPLY=($(compgen -W 'hit miss expired stale updating revalidated bypass pass hitmiss hitpass pipe synth none' -- "$cur"))
        return
    fi
    local options
    case ${COMP_WORDS[1]} in
    serve) options='--listen --print-config' ;;
    cache) options='ls stat bans verify clear -p -c' ;;
    why) options='--json -p -c -g --pid -n -l --listen -h' ;;
    explain) options='-X -H --from --json -p -c -g --pid -n -l --listen -h' ;;
    purge) options='--tag --prefix --match --host --ban --all --soft --zone --everywhere --json -p -c -g --pid -n -l --listen -h' ;;
    top) options='--json -p -c -g --pid -n -l --listen -h' ;;
    cluster) options='status forget --json -p -c -g --pid -n -l --listen -h' ;;
    log) options='--host --url --match --method --status --cache --from --slow --failed --json --kept -q -k -d -p -c -g --pid -n -r -h' ;;
    doctor) options='--json --no-disk-test --root -p -c -g -h' ;;
    import) options='nginx varnish --json --root --write -c -h' ;;
    profile) options='common php wordpress woocommerce edd bbpress magento drupal mediawiki joomla nextcloud laravel symfony' ;;
    shadow) options='--old --log --once --format --listen --host --field --skip --rate --requests --for --json -c -p -g -h' ;;
    varnishd) options='-a -b -f -s -p -t -r -T -M -S -I -l -n -i -j -P -F -C -V -x' ;;
    varnishstat) options='-1 -j -x -l -f -I -X -n -t -r -V -h' ;;
    varnishlog) options='-n -d -r -t -g -q -Q -C -c -b -E -i -x -I -X -k -R -L -T -v -w -A -a -u -D -P -V -h' ;;
    varnishncsa) options='-F -f -j -n -d -r -t -g -q -Q -C -c -b -E -k -R -L -w -a -D -P -V -h' ;;
    *) options="$commands -h -v -V -t -T --notices -q -s -p -e -c -g" ;;
    esac
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
    [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur"))
}
complete -F _larder larder
