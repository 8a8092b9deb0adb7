/* pawl.pml - protocol model of one side-effecting operation.
 *
 * Workers that crash and pause anywhere, the durable intent log, a network that loses, delays and
 * (optionally) duplicates requests and loses answers, a provider with or without keys (finite retention),
 * synchronous or asynchronous landing, a probe (consistent, stale, or a fence), the sweeper, a lease, the
 * attempt token, a run that may want to compensate, a person at the review queue, one restore.
 *
 * Time is discrete (process Clock).  A worker may lag without limit except where a parameter says
 * otherwise.  Every switch below is a design rule or an assumption; go run ./model flips them as settings.tsv
 * says and compares what breaks.  A permit is the right to write one request: the attempt as committed
 * in the log, before any byte.
 *
 * By hand (SPIN 6.5.2, gcc):  spin -DKEYS=0 -DONABSENT=2 -DQ=2 -DPROP=1 -a pawl.pml
 *   gcc -w -O1 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -E -m300000     (gcc -DBFS: shortest trace)
 *   spin -DKEYS=0 -DONABSENT=2 -DQ=2 -DPROP=1 -t pawl.pml | grep -E 'LOG|REM|NET|TIME|W[12]|HUM|SAGA|OPS'
 * Liveness: spin -DPROP=9 -DLIVE ... -a; gcc -DNFAIR=3 -DCOLLAPSE; ./pan -a -f -E
 *
 * PROP = 0 all properties (4 only together with COMPUNK), 1..6 only that one:
 *  1 at most one business effect per intention
 *  2 never SUCCEEDED without an effect
 *  3 never FAILED_NO_EFFECT with an effect (now or later)
 *  4 no compensation of an unconfirmed effect
 *  5 at the end of every run the operation is settled or in the review queue
 *  6 the agent is never told "no effect" when an effect exists or follows
 */
#ifndef PROP
#define PROP 0
#endif
/* ---- the provider ---- */
#ifndef KEYS
#define KEYS 1          /* provider deduplicates on the operation key */
#endif
#ifndef ATOMIC
#define ATOMIC 1        /* key record and business effect in one transaction */
#endif
#ifndef RET
#define RET 6           /* key retention, ticks after acceptance */
#endif
#ifndef ASYNC
#define ASYNC 0         /* provider may answer "accepted" and land later */
#endif
#ifndef LAND
#define LAND 2          /* landing takes at most LAND ticks */
#endif
#ifndef LANDFAIL
#define LANDFAIL 1      /* an accepted request may finally fail */
#endif
#ifndef NOTAFTER
#define NOTAFTER 0      /* receiver refuses requests that arrive after permit+NA */
#endif
#ifndef NA
#define NA 1
#endif
#ifndef REJREC
#define REJREC 0        /* a definitive refusal is recorded under the key */
#endif
/* ---- the network ---- */
#ifndef FL
#define FL 2            /* a sent request is delivered or lost within FL ticks; 99 = no bound */
#endif
#ifndef DUP
#define DUP 0           /* one copy may be delivered twice (transport retry, proxy) */
#endif
/* ---- the probe ---- */
#ifndef PROBE
#define PROBE 1         /* 0 none, 1 read, 3 fence (tombstone the key when absent) */
#endif
#ifndef VIS
#define VIS 0           /* an effect becomes visible to the probe after VIS ticks */
#endif
#ifndef PSEES
#define PSEES 1         /* probe can see "in progress" */
#endif
#ifndef LOOK
#define LOOK 0          /* probe matches by look-alike fields: may see somebody else's record */
#endif
/* ---- the executor's rules ---- */
#ifndef LOGFIRST
#define LOGFIRST 1      /* durable intent before the send */
#endif
#ifndef LOSSY
#define LOSSY 0         /* a crash may lose the last commit (fsync off, async standby) */
#endif
#ifndef AMBIG
#define AMBIG 0         /* the claim's COMMIT may be applied and yet report an error */
#endif
#ifndef AMBIGRULE
#define AMBIGRULE 1     /* on such an error re-read before telling anything */
#endif
#ifndef TOKEN
#define TOKEN 1         /* writes are compare-and-set on status and attempt token */
#endif
#ifndef EVID
#define EVID 1          /* evidence of success is taken from a worker whose token is old */
#endif
#ifndef FNEALL
#define FNEALL 1        /* FAILED_NO_EFFECT only when every permit is known harmless */
#endif
#ifndef Q
#define Q 3             /* "absent" is believed only at or after last permit + Q */
#endif
#ifndef W
#define W 4             /* resend with the same key only before first permit + W */
#endif
#ifndef ONABSENT
#define ONABSENT 1      /* keyless and absent: 0 review, 1 FAILED_NO_EFFECT, 2 resend */
#endif
#ifndef KEYABSENT
#define KEYABSENT 0     /* keyed, absent, window over: 0 review, 1 FAILED_NO_EFFECT */
#endif
#ifndef NPRESEND
#define NPRESEND 1      /* no probe, keyed: 1 resend inside W, 0 straight to review */
#endif
#ifndef BLIND
#define BLIND 0         /* wrong rule: keyless, no probe, resend after a timeout (at-least-once engines) */
#endif
#ifndef ACCSUCC
#define ACCSUCC 0       /* wrong rule: "accepted" counts as success */
#endif
#ifndef ERRFNE
#define ERRFNE 0        /* wrong rule: any error answer (5xx) counts as no effect */
#endif
#ifndef COMPUNK
#define COMPUNK 0       /* wrong rule: compensate an UNKNOWN */
#endif
#ifndef HUMAN
#define HUMAN 1         /* a person decides review items by looking at the provider */
#endif
#ifndef HWAIT
#define HWAIT 1         /* ... and "it did not happen" is held back until last permit + Q */
#endif
#ifndef LEASE
#define LEASE 2
#endif
#ifndef LEASECHK
#define LEASECHK 1      /* the worker looks at its lease just before the write */
#endif
#ifndef ZMAX
#define ZMAX 0          /* longest pause between permit and write to the socket; 99 = no bound */
#endif
#ifndef RESTORE
#define RESTORE 0       /* the log is once restored from an old backup */
#endif
#ifndef PROBEFIRST
#define PROBEFIRST 1    /* after a restore the first send of anything is preceded by a probe */
#endif
/* ---- bounds ---- */
#ifndef CR
#define CR 1
#endif
#ifndef MAXA
#define MAXA 2
#endif
#ifndef MAXT
#define MAXT 12
#endif
#ifndef NW
#define NW 2
#endif
#define NR 4

#define S_NONE 0
#define S_PEND 1
#define S_UNK  2
#define S_SUCC 3
#define S_FNE  4
#define S_HUM  5
#define K_NONE 0
#define K_PROG 1
#define K_DONE 2
#define K_TOMB 3
#define K_REJ  4
#define A_NONE 0
#define A_OK   1
#define A_REJ  2
#define A_ERR  3
#define A_ACC  4
#define R_ABS  1
#define R_PRES 2
#define R_PROG 3

/* intent log (durable).  has[w]: worker w holds the current attempt token.
   S_HUM is UNKNOWN with an open review item; dirty counts permits not known harmless */
byte st = S_NONE; byte owner = 0; bit has[3]; byte lease = 0;
byte tfirst = 0; byte tlast = 0; byte attempts = 0; byte dirty = 0;
bit  unsafe_epoch = 0;
/* what the agent was told */
bit told_fne = 0; bit ambig_used = 0; bit restored = 0;
/* network: slot in flight, sent at, permitted at, which worker still waits, second copy used */
bit rq[NR]; byte rqt[NR]; byte rqp[NR]; byte rqw[NR]; bit dupd[NR];
byte ack[3];                   /* answer for the request worker w waits on */
/* provider */
byte effects = 0; byte teff = 0; byte key = K_NONE; byte tkey = 0;
bit landing = 0; byte tland = 0; bit keypend = 0;
byte comps = 0;
/* clock, crashes, pauses */
byte now = 0; byte crashes = 0;
bit holding[3]; byte tpermit[3];

#define TERMINAL (st==S_SUCC || st==S_FNE)
#define SETTLED (TERMINAL || st==S_HUM)
#define INFLIGHT (rq[0] || rq[1] || rq[2] || rq[3])

inline chk_effect() {
  skip;
#if PROP==0 || PROP==1
  assert(effects <= 1);                 /* P1 */
#endif
#if PROP==0 || PROP==3
  assert(st != S_FNE);                  /* P3 */
#endif
#if PROP==0 || PROP==6
  assert(told_fne == 0);                /* P6 */
#endif
}
inline set_succ() {
  st = S_SUCC; lease = 0; owner = 0; printf("LOG  state := SUCCEEDED (effects=%d)\n", effects);
#if PROP==0 || PROP==2
  assert(effects >= 1);                 /* P2 */
#endif
}
inline set_fne() {
  st = S_FNE; lease = 0; owner = 0; printf("LOG  state := FAILED_NO_EFFECT (effects=%d)\n", effects);
#if PROP==0 || PROP==3
  assert(effects == 0);                 /* P3 */
#endif
}
inline do_effect() {
  effects++; printf("REM  effect #%d takes place\n", effects);
#if VIS > 0
  teff = now;
#endif
  chk_effect() }
inline set_key(v) { key = v; tkey = (v == K_NONE -> 0 : now) }
inline record_done() { if :: ATOMIC -> set_key(K_DONE) :: else -> keypend = 1 fi }
inline answer(v) { if :: rqw[i] != 0 -> ack[rqw[i]] = v :: else fi }
inline free_slot() { rq[i] = 0; rqt[i] = 0; rqp[i] = 0; rqw[i] = 0; dupd[i] = 0 }

/* the provider handles request i (inside an atomic) */
inline remote() {
  if
  :: NOTAFTER && now > rqp[i] + NA -> printf("REM  request refused: past its not-after\n"); answer(A_REJ)
  :: else ->
    if
    :: KEYS && key == K_DONE -> printf("REM  known key: replay of the success\n"); answer(A_OK)
    :: KEYS && key == K_PROG -> printf("REM  known key: still in progress\n"); answer(A_ACC)
    :: KEYS && (key == K_TOMB || key == K_REJ) -> printf("REM  known key: tombstone or refused\n"); answer(A_REJ)
    :: !KEYS || key == K_NONE ->
       if
       :: true -> do_effect(); record_done(); answer(A_OK); printf("REM  answers OK\n")      /* done, answered */
       :: true -> do_effect(); record_done(); answer(A_ERR); printf("REM  answers with an error after the effect\n")     /* done, answered with an error */
       :: true -> answer(A_REJ); printf("REM  definitive refusal, no effect\n");    /* definitive refusal, nothing done */
          if :: REJREC -> set_key(K_REJ) :: else fi
       :: true -> answer(A_ERR); printf("REM  error, no effect\n")         /* error, nothing done */
       :: ASYNC && landing == 0 -> landing = 1; tland = now; set_key(K_PROG); answer(A_ACC); printf("REM  accepted, will land later\n")
       fi
    fi
  fi
}

active proctype Net() {
  byte i;
  do
  :: atomic { INFLIGHT ->
       if
       :: rq[0] -> i = 0
       :: rq[1] -> i = 1
       :: rq[2] -> i = 2
       :: rq[3] -> i = 3
       fi;
       if
       :: true -> remote(); if :: DUP && dupd[i] == 0 -> dupd[i] = 1 :: free_slot() fi
       :: true -> free_slot(); printf("NET  request lost\n")   /* lost */
       fi; i = 0 }
  :: atomic { KEYS && key != K_NONE && key != K_PROG && now >= tkey + RET -> set_key(K_NONE); printf("REM  key forgotten (retention over)\n") }
  :: atomic { landing == 1 -> landing = 0; tland = 0;
       if
       :: true -> do_effect(); key = K_DONE
       :: LANDFAIL -> printf("REM  accepted request finally fails, no effect\n"); if :: REJREC -> key = K_REJ :: else -> set_key(K_NONE) fi
       fi }
  :: atomic { keypend == 1 -> keypend = 0; if :: set_key(K_DONE) :: skip fi }  /* may die in between */
  od
}

#define REQ_LATE(j) (rq[j] && now >= rqt[j] + FL)
#define ANY_LATE (FL < 99 && (REQ_LATE(0) || REQ_LATE(1) || REQ_LATE(2) || REQ_LATE(3)))
#define LAND_LATE (landing==1 && LAND < 99 && now >= tland + LAND)
#define PAUSED_LATE (ZMAX < 99 && ((holding[1] && now >= tpermit[1]+ZMAX) || (holding[2] && now >= tpermit[2]+ZMAX)))
#define QUIET (st==S_NONE && !restored || TERMINAL && !holding[1] && !holding[2])

active proctype Clock() {
  do
  :: atomic { now < MAXT && !(QUIET && !INFLIGHT && !landing) && !ANY_LATE && !LAND_LATE && !PAUSED_LATE -> now++; printf("TIME %d\n", now) }
  od
}

inline stop_waiting() {
  if :: rq[0] && rqw[0] == id -> rqw[0] = 0 :: else fi;
  if :: rq[1] && rqw[1] == id -> rqw[1] = 0 :: else fi;
  if :: rq[2] && rqw[2] == id -> rqw[2] = 0 :: else fi;
  if :: rq[3] && rqw[3] == id -> rqw[3] = 0 :: else fi;
  ack[id] = A_NONE }
inline take() { has[1] = 0; has[2] = 0; has[id] = 1; owner = id; lease = now + LEASE }
inline permit() { printf("W%d   permit #%d logged (PENDING)\n", id, attempts+1); st = S_PEND; take(); tlast = now; attempts++; dirty++; holding[id] = 1; tpermit[id] = now }
inline unhold() { holding[id] = 0; tpermit[id] = 0 }

/* a worker may die here; what it held in memory is gone, what it wrote to a socket is not */
inline crashpt() {
  if
  :: atomic { crashes < CR -> crashes++; printf("W%d   *** crash\n", id); unhold(); stop_waiting();
       if :: LOSSY && st == S_PEND -> st = S_NONE; attempts = 0; dirty = 0; owner = 0; lease = 0 :: true fi;
       goto restart }
  :: true
  fi
}

proctype Worker(byte id) {
  byte slot; byte res; bit amnesia = 1;
restart:
  atomic { slot = 0; res = 0; amnesia = 1; if :: owner == id -> has[id] = 0 :: else fi }
loop:
  atomic { slot = 0; res = 0;
  if
  :: st == S_NONE && !(unsafe_epoch && PROBEFIRST) && LOGFIRST ->
       tfirst = now; permit(); amnesia = 0;
       if
       :: AMBIG && ambig_used == 0 -> ambig_used = 1;
          if
          :: AMBIGRULE -> goto send         /* re-read: my own record, go on */
          :: else -> told_fne = 1; printf("W%d   COMMIT error taken as not recorded; agent told NO EFFECT\n", id); unhold(); has[id] = 0; amnesia = 1; goto loop   /* "not recorded, not sent" */
          fi
       :: true -> goto send
       fi
  :: st == S_NONE && !LOGFIRST && !(rq[0] && rq[1]) ->
       if :: !rq[0] -> slot = 0 :: rq[0] && !rq[1] -> slot = 1 fi;
       printf("W%d   sends before logging\n", id); rq[slot] = 1; rqt[slot] = now; rqp[slot] = now; rqw[slot] = id; ack[id] = A_NONE; goto logafter
  :: st == S_NONE && unsafe_epoch && PROBEFIRST ->
       st = S_UNK; take(); amnesia = 0; tfirst = now; tlast = now; attempts = 0; dirty = 0; goto recon
  /* sweeper / restart: take over */
  :: (st == S_PEND || st == S_UNK) && (owner == 0 || (owner == id && amnesia) || now >= lease) ->
       printf("W%d   takes over, UNKNOWN\n", id); st = S_UNK; take(); amnesia = 0; goto recon
  :: SETTLED -> goto done
  fi };

logafter:
  crashpt();
  atomic { if
     :: st == S_NONE -> st = S_PEND; take(); amnesia = 0; tfirst = now; tlast = now; attempts = 1; dirty = 1
     :: else -> stop_waiting(); goto loop
     fi }; goto wait_ack;

send:
  crashpt();
  if
  :: atomic { LEASECHK && now >= lease -> /* give the permit back, unsent */
     unhold(); printf("W%d   lease gone, permit given back unsent\n", id); if :: dirty > 0 -> dirty-- :: else fi;
     if :: has[id] -> owner = 0; has[id] = 0 :: else fi; goto loop }
  :: !(LEASECHK && now >= lease)
  fi;
  atomic {
    if
    :: !rq[0] -> slot = 0
    :: rq[0] && !rq[1] -> slot = 1
    :: rq[0] && rq[1] && !rq[2] -> slot = 2
    :: rq[0] && rq[1] && rq[2] && !rq[3] -> slot = 3
    :: else -> unhold(); goto loop
    fi;
    rq[slot] = 1; rqt[slot] = now; rqp[slot] = tpermit[id]; rqw[slot] = id; ack[id] = A_NONE; unhold(); slot = 0; printf("W%d   request written to the network\n", id) }

wait_ack:
  crashpt();
  if
  :: atomic { ack[id] == A_OK || (ACCSUCC && ack[id] == A_ACC) -> stop_waiting(); printf("W%d   reads a success answer\n", id);
       if
       :: !TOKEN -> set_succ()
       :: TOKEN && (st == S_PEND || st == S_UNK || st == S_HUM) && (has[id] || EVID) -> set_succ()
       :: else
       fi; goto loop }
  :: atomic { ack[id] == A_REJ || (ERRFNE && ack[id] == A_ERR) -> stop_waiting(); printf("W%d   reads a refusal\n", id);
       if :: dirty > 0 -> dirty-- :: else fi;
       if
       :: !TOKEN && !FNEALL -> set_fne()
       :: !TOKEN && FNEALL && dirty == 0 -> set_fne()
       :: TOKEN && !FNEALL && (st == S_PEND || st == S_UNK) && has[id] -> set_fne()
       :: TOKEN && FNEALL && (st == S_PEND || st == S_UNK) && has[id] && dirty == 0 -> set_fne()
       :: else ->
          if
          :: TOKEN && has[id] && st == S_PEND -> st = S_UNK; goto recon
          :: else
          fi
       fi; goto loop }
  :: atomic { true -> stop_waiting(); printf("W%d   timeout / ambiguous answer: UNKNOWN\n", id);           /* timeout, connection error, ambiguous answer */
       if
       :: !TOKEN -> st = S_UNK; owner = id; goto recon
       :: TOKEN && has[id] && st == S_PEND -> st = S_UNK; goto recon
       :: else -> goto loop
       fi }
  fi;

recon:
  crashpt();
  if
  :: PROBE == 0 && KEYS && NPRESEND -> goto resend_keyed
  :: PROBE == 0 && !KEYS && BLIND -> goto resend_any
  :: PROBE == 0 && !(KEYS && NPRESEND) && !(!KEYS && BLIND) -> goto human
  :: PROBE != 0 && !has[id] && TOKEN -> goto loop
  :: atomic { PROBE != 0 && (has[id] || !TOKEN) && now >= tlast + Q ->
          if
          :: LOOK && effects == 0 -> res = R_PRES; printf("W%d   probe: present (somebody else's record)\n", id)
          :: effects > 0 && now >= teff + VIS -> res = R_PRES; printf("W%d   probe: present\n", id)
          :: landing == 1 && PSEES -> res = R_PROG
          :: !(effects > 0 && now >= teff + VIS) && !(landing == 1 && PSEES) ->
             res = R_ABS; printf("W%d   probe: absent\n", id);
             if
             :: PROBE == 3 && KEYS && key == K_NONE -> set_key(K_TOMB)
             :: else
             fi
          fi }
  fi;
  crashpt();
  if
  :: atomic { res == R_PRES ->
       if
       :: !TOKEN -> set_succ()
       :: TOKEN && (st == S_PEND || st == S_UNK || st == S_HUM) && (has[id] || EVID) -> set_succ()
       :: else
       fi; goto loop }
  :: atomic { res == R_PROG && landing == 0 -> res = 0; goto recon }
  :: res == R_PROG && now >= MAXT -> goto human
  :: atomic { res == R_ABS && PROBE == 3 ->
     if :: (!TOKEN || has[id]) && (st == S_UNK || st == S_PEND) -> set_fne() :: else fi; goto loop }
  :: res == R_ABS && PROBE != 3 && KEYS -> goto resend_keyed
  :: res == R_ABS && PROBE != 3 && !KEYS && ONABSENT == 0 -> goto human
  :: atomic { res == R_ABS && PROBE != 3 && !KEYS && ONABSENT == 1 ->
     if :: (!TOKEN || has[id]) && st == S_UNK -> set_fne() :: else fi; goto loop }
  :: res == R_ABS && PROBE != 3 && !KEYS && ONABSENT == 2 -> goto resend_any
  fi;

resend_keyed:
  atomic {
    res = 0;
    if
    :: TOKEN && (!has[id] || st != S_UNK) -> goto loop
    :: else
    fi;
    if
    :: now < tfirst + W && attempts < MAXA -> permit(); goto send
    :: !(now < tfirst + W && attempts < MAXA) && KEYABSENT == 0 -> goto human
    :: !(now < tfirst + W && attempts < MAXA) && KEYABSENT == 1 -> set_fne(); goto loop
    fi };

resend_any:
  atomic {
    res = 0;
    if
    :: TOKEN && (!has[id] || st != S_UNK) -> goto loop
    :: else
    fi;
    if
    :: now < tfirst + W && attempts < MAXA -> permit(); goto send
    :: else -> goto human
    fi };

human:
  atomic { if :: (!TOKEN || (has[id] && st == S_UNK)) -> st = S_HUM; lease = 0; owner = 0; printf("W%d   to the review queue\n", id) :: else fi; goto loop };

done:
  skip
}

#if PROP==4 || COMPUNK
/* a later step failed: the run may want to undo this one */
active proctype Saga() {
  if
  :: atomic { st == S_SUCC || (COMPUNK && st == S_UNK) -> comps++; printf("SAGA compensates (effects=%d)\n", effects);
#if PROP==0 || PROP==4
       assert(effects == 1);                  /* P4: only a confirmed, present effect */
#endif
     }
  :: true
  fi
}
#endif

active proctype Human() {
  if
  :: atomic { HUMAN && st == S_HUM && effects > 0 && now >= teff + VIS -> printf("HUM  sees the record\n"); set_succ() }
  :: atomic { HUMAN && st == S_HUM && !(effects > 0 && now >= teff + VIS) && !(landing && PSEES) && (!HWAIT || now >= tlast + Q) -> printf("HUM  sees no record\n"); set_fne() }
  :: TERMINAL
  fi
}

#if RESTORE
active proctype Restorer() {
  atomic { !restored && st != S_NONE && now <= 4 -> restored = 1; printf("OPS  log restored from an old backup: the record is gone\n"); st = S_NONE; owner = 0; lease = 0; attempts = 0; dirty = 0;
       has[1] = 0; has[2] = 0; unsafe_epoch = 1 }
}
#endif

#ifdef LIVE
ltl settle { <> (st == S_SUCC || st == S_FNE || st == S_HUM) }
#endif

init { atomic { run Worker(1); if :: NW > 1 -> run Worker(2) :: else fi }
  /* end of every run */
  timeout;
#if PROP==0 || PROP==5
  /* runs cut off by the end of time do not count, nor does a record that a restore has made forgotten */
  assert(SETTLED || tlast + Q > MAXT || (restored && st == S_NONE));        /* P5 */
#endif
}
