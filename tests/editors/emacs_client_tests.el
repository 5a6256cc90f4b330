;;; emacs_client_tests.el --- What fastcoder-mode itself decides  -*- lexical-binding: t; -*-

;; emacs --batch -q -l fastcoder.el -l emacs_client_tests.el -f ert-run-tests-batch-and-exit
;; The server is scripted: what it was asked is in `script-asked', the latest question is answered by `script-answer'.

(require 'ert)

(defvar script-asked nil "The questions, latest first, as (METHOD PARAMS ANSWER-FUNCTION).")

(defvar script-status '(:state "ready") "What the server said of itself last.")

(defmacro with-script (text &rest body)
  "Run BODY in a window on TEXT, point at its end or at the mark |, with `fastcoder-mode' on."
  (declare (indent 1))
  `(let ((script-asked nil) (buffer (generate-new-buffer "script")))
     (cl-letf (((symbol-function 'fastcoder--server) (lambda () 'server))
               ((symbol-function 'fastcoder--server-status) (lambda (_server) script-status))
               ((symbol-function 'eglot--signal-textDocument/didChange) #'ignore)
               ((symbol-function 'eglot--TextDocumentPositionParams) (lambda () (list :position (point))))
               ((symbol-function 'eglot--lsp-position-to-point) #'identity)
               ((symbol-function 'jsonrpc-async-request)
                (lambda (_server method params &rest keys)
                  (push (list method params (plist-get keys :success-fn)) script-asked))))
       (unwind-protect
           (progn (switch-to-buffer buffer)
                  (insert ,text)
                  (when (search-backward "|" nil t) (delete-char 1))
                  (fastcoder-mode 1)
                  ,@body)
         (kill-buffer buffer)))))

(defun script-keys (keys)
  "Type KEYS, and let the timers run."
  (execute-kbd-macro (if (string-match-p "\\`\\(?:[CM]-.\\|TAB\\|DEL\\|RET\\)\\'" keys) (kbd keys) keys))
  (sleep-for 0.02))

(defun script-answer (&rest items)
  "Answer the latest question: ITEMS are texts, or whole items."
  (funcall (nth 2 (car script-asked))
           (list :items (vconcat (mapcar (lambda (item) (if (stringp item) (list :insertText item) item)) items)))))

(defun script-ghost ()
  "What is drawn."
  (if (fastcoder--shown)
      (substring-no-properties (overlay-get (fastcoder--shown-overlay (fastcoder--shown)) 'after-string))
    ""))

(defun script-kinds ()
  "How the server was asked, latest first."
  (mapcar (lambda (asked) (plist-get (plist-get (nth 1 asked) :context) :triggerKind))
          (cl-remove :workspace/executeCommand script-asked :key #'car)))

(ert-deftest the-cursor-is-told-where-it-rests ()
  (let ((transient-mark-mode t) told)
    (cl-letf (((symbol-function 'eglot--VersionedTextDocumentIdentifier) (lambda () '(:uri "file:///a" :version 3)))
              ((symbol-function 'eglot--pos-to-lsp-position) #'identity)
              ((symbol-function 'jsonrpc-notify) (lambda (_server method params) (push (list method params) told))))
      (with-script "one\ntwo\nthree\n"
        (should (memq fastcoder--rest-timer timer-idle-list))
        (goto-char 5)
        (fastcoder--tell-cursor)
        (fastcoder--tell-cursor)
        (should (equal told '((:fastcoder/cursor (:textDocument (:uri "file:///a" :version 3) :position 5)))))
        (goto-char 9)
        (push-mark 1 t t)
        (fastcoder--tell-cursor)
        (should (= (length told) 1))
        (deactivate-mark)
        (fastcoder--tell-cursor)
        (should (= (length told) 2))
        (setq buffer-read-only t)
        (goto-char 5)
        (fastcoder--tell-cursor)
        (setq buffer-read-only nil)
        (fastcoder-mode -1)
        (fastcoder--tell-cursor)
        (should (= (length told) 2))))))

(ert-deftest what-is-copied-is-told-by-its-place ()
  (let ((script-status '(:state "ready" :context t)) told)
    (cl-letf (((symbol-function 'eglot--VersionedTextDocumentIdentifier) (lambda () '(:uri "file:///a" :version 3)))
              ((symbol-function 'eglot--pos-to-lsp-position) #'identity)
              ((symbol-function 'jsonrpc-notify) (lambda (_server method params) (push (list method params) told))))
      (with-script "one\ntwo\nthree\n"
        (goto-char 5)
        (push-mark (point) t t)
        (goto-char 9)
        (script-keys "M-w")
        (should (equal told '((:fastcoder/yanked (:textDocument (:uri "file:///a" :version 3)
                                                  :range (:start 5 :end 9))))))
        (push-mark 4 t t)
        (script-keys "M-w")
        (should (= (length told) 2))
        (script-keys "C-k")
        (script-keys "C-y")
        (push-mark 1 t t)
        (script-keys "C-w")
        (should (= (length told) 2))
        (setq script-status '(:state "ready" :context :json-false))
        (push-mark 1 t t)
        (script-keys "M-w")
        (should (= (length told) 2))
        (setq script-status '(:state "ready" :context t))
        (fastcoder-mode -1)
        (push-mark 1 t t)
        (script-keys "M-w")
        (should (= (length told) 2))))))

(ert-deftest copying-beside-a-server-that-has-died-leaves-the-mode-on ()
  (let ((script-status '(:state "ready" :context t)) debug-on-error)
    (cl-letf (((symbol-function 'eglot--VersionedTextDocumentIdentifier) #'ignore)
              ((symbol-function 'eglot--pos-to-lsp-position) #'identity)
              ((symbol-function 'jsonrpc-notify) (lambda (&rest _) (error "Process fastcoder not running"))))
      (with-script "one"
        (push-mark 1 t t)
        (script-keys "M-w")
        (should (memq #'fastcoder--after-command post-command-hook))))))

(ert-deftest alternatives-turn-and-the-chosen-one-is-accepted ()
  (with-script "x = "
    (script-keys "(")
    (script-answer "one")
    (should (equal (script-ghost) "one"))
    (script-keys "M-n")
    (should (equal (script-kinds) '(1 2)))
    (script-answer "one" "two" "three" "two")
    (should (equal (script-ghost) "two 2/3"))
    (script-keys "M-n")
    (should (equal (script-ghost) "three 3/3"))
    (script-keys "M-n")
    (should (equal (script-ghost) "one 1/3"))
    (script-keys "M-p")
    (should (equal (script-ghost) "three 3/3"))
    (should (equal (script-kinds) '(1 2)))
    (script-keys "TAB")
    (should (equal (buffer-string) "x = (three"))))

(ert-deftest typing-goes-on-with-the-alternative-that-fits ()
  (with-script ""
    (fastcoder--request 1)
    (script-answer "alpha" "beta" "bet2")
    (script-keys "be")
    (should (equal (script-ghost) "ta 1/2"))
    (should (equal (script-kinds) '(1)))
    (script-keys "x")
    (should (equal (script-ghost) ""))
    (should (equal (script-kinds) '(2 1)))))

(ert-deftest a-late-answer-is-dropped ()
  (with-script ""
    (script-keys "a")
    (let ((first (car script-asked)))
      (script-keys "b")
      (funcall (nth 2 first) '(:items [(:insertText "late")]))
      (should (equal (script-ghost) ""))
      (script-answer "now")
      (should (equal (script-ghost) "now")))))

(ert-deftest a-dismissed-suggestion-stays-away ()
  (with-script ""
    (script-keys "a")
    (script-answer "one")
    (script-keys "o")
    (should (equal (script-ghost) "ne"))
    (fastcoder-dismiss)
    (script-answer "ne")
    (should (equal (script-ghost) ""))))

(ert-deftest it-goes-when-point-leaves ()
  (with-script "ab"
    (script-keys "c")
    (script-answer "d")
    (script-keys "C-b")
    (should (equal (script-ghost) ""))))

(ert-deftest one-who-pauses-is-asked-for-again ()
  (let ((fastcoder--again '(0.01 0.02)))
    (with-script ""
      (script-keys "a")
      (dotimes (_ 4) (script-answer) (sleep-for 0.05))
      (should (equal (script-kinds) '(2 2 2))))))

(ert-deftest what-was-late-is-asked-for-when-it-is-made ()
  (let ((fastcoder--again nil))
    (with-script "x"
      (script-keys "a")
      (fastcoder--take-late (point))    ; an answer is on its way
      (script-answer)
      (should (equal (script-kinds) '(2)))
      (fastcoder--take-late (1- (point)))
      (should (equal (script-kinds) '(2)))
      (fastcoder--take-late (point))
      (script-answer "late")
      (should (equal (script-ghost) "late"))
      (fastcoder--take-late (point))
      (script-answer "late and longer")
      (should (equal (script-ghost) "late and longer"))
      (should (equal (script-kinds) '(2 2 2)))
      (fastcoder-dismiss)
      (fastcoder--take-late (point))    ; one has said no
      (should (equal (script-kinds) '(2 2 2))))))

(ert-deftest what-was-asked-for-by-key-is-replaced-by-better-until-one-chooses ()
  (let ((fastcoder--again nil))
    (with-script "x"
      (fastcoder--request 1)
      (script-answer "one" "two")
      (fastcoder--take-late (point))
      (should (equal (script-ghost) "one 1/2")) ; nothing flickers
      (script-answer "better")
      (should (equal (script-ghost) "better"))
      (should (equal (script-kinds) '(2 1)))
      (script-keys "M-n")
      (script-answer "better" "other")
      (should (equal (script-ghost) "other 2/2"))
      (fastcoder--take-late (point))
      (script-keys "o")
      (fastcoder--take-late (point))
      (should (equal (script-ghost) "ther"))
      (should (equal (script-kinds) '(1 2 1))))))

(ert-deftest nothing-stays-on-the-screen-in-another-major-mode ()
  (with-script "x"
    (script-keys "a")
    (script-answer "late")
    (should (overlays-in (point-min) (point-max)))
    (text-mode)
    (should-not (overlays-in (point-min) (point-max)))))

(ert-deftest the-server-tells-of-one-text ()
  (let* ((pipe (make-pipe-process :name "script" :noquery t))
         (server (make-instance 'fastcoder-server :process pipe)))
    (unwind-protect
        (with-script "x"
          (cl-letf (((symbol-function 'eglot--TextDocumentIdentifier) (lambda () '(:uri "file:///a"))))
            (let* ((version (plist-get (eglot--VersionedTextDocumentIdentifier) :version))
                   (tell (lambda (uri version)
                           (eglot-handle-notification server 'fastcoder/late :position (point)
                                                      :textDocument (list :uri uri :version version)))))
              (funcall tell "file:///b" version)
              (funcall tell "file:///a" (1- version))
              (should-not script-asked)
              (funcall tell "file:///a" version)
              (should (equal (script-kinds) '(2))))))
      (delete-process pipe))))

(ert-deftest the-mode-line-says-what-is-made-and-how-far-it-is ()
  (cl-letf* ((status nil)
             ((symbol-function 'fastcoder--server) (lambda () 'server))
             ((symbol-function 'fastcoder--server-status) (lambda (_) status)))
    (setq status '(:state "loading" :percent 40 :message "weights 3%" :hint ""))
    (should (equal (substring-no-properties (fastcoder--lighter)) " fast:40%% weights 3%%"))
    (should (equal (fastcoder--described status) "loading 40%: weights 3%"))
    (setq status '(:state "ready" :message "" :hint "" :notes ["snoozed for 12 more minutes" "on battery"] :snoozed 12))
    (should (equal (substring-no-properties (fastcoder--lighter)) " fast:12m"))
    (should (equal (fastcoder--described status) "ready: snoozed for 12 more minutes; on battery"))
    (setq status '(:state "loading" :percent 40 :message "" :hint ""))
    (should (equal (substring-no-properties (fastcoder--lighter)) " fast:40%%"))))

(ert-deftest the-status-says-who-is-asked-in-the-models-place ()
  (cl-flet ((said (state asks)
              (fastcoder--described (list :state state :percent nil :message "" :hint "" :host nil :asks asks))))
    (should (equal (said "ready" "models.example") "ready: code around the cursor is sent to models.example"))
    (should (equal (said "error" "models.example") "error"))
    (should (equal (said "ready" nil) "ready"))))

(ert-deftest why-is-told-in-a-window ()
  (with-script ""
    (cl-letf (((symbol-function 'eglot--TextDocumentIdentifier) (lambda () '(:uri "file:///a")))
              ((symbol-function 'fastcoder--server-or-lose) (lambda () 'server)))
      (fastcoder-why)
      (should (equal (seq-take (car script-asked) 2) '(:fastcoder/why (:textDocument (:uri "file:///a")))))
      (let ((fastcoder-auto nil) (window (selected-window)))
        (funcall (nth 2 (car script-asked)) '(:text "Too slow.\nWait."))
        (should (eq (selected-window) window))) ; keys go where they went before
      (with-current-buffer "*fastcoder why*"
        (should (string-match-p "fastcoder-ask" (buffer-string)))
        (should (string-match-p "Too slow\\.\nWait\\." (buffer-string)))))))

(ert-deftest what-it-replaces-is-not-drawn-twice ()
  (with-script "f(|)"
    (script-keys "o")
    (script-answer (list :insertText "one(1))" :range (list :start 3 :end 5)))
    (should (equal (script-ghost) "ne(1)"))
    (should-not (fastcoder--shown-strike (fastcoder--shown)))
    (script-keys "TAB")
    (should (equal (buffer-string) "f(one(1))"))))

;; What is on the screen: the ghost text in its places, and what is struck out in brackets.
(defun script-screen ()
  "The line of point as it is drawn."
  (let ((shown (fastcoder--shown)) (text (buffer-substring-no-properties (point) (line-end-position))))
    (let* ((rest (and shown (fastcoder--shown-rest shown)))
           (strike (and shown (fastcoder--shown-strike shown)))
           (struck (if strike (- (overlay-end strike) (point)) 0))
           (at (if rest (- (overlay-start rest) (point)) struck)))
      (concat (buffer-substring-no-properties (line-beginning-position) (point))
              "|" (script-ghost)
              (if strike (concat "[" (substring text 0 struck) "]") (substring text 0 at))
              (and rest (substring-no-properties (overlay-get rest 'after-string)))
              (substring text at)))))

(defun script-replacing (text says width)
  "What is drawn in TEXT where SAYS would replace WIDTH characters, and what accepting it makes of it."
  (with-script text
    (fastcoder--request 2)
    (script-answer (list :insertText says :range (list :start (point) :end (+ (point) width))))
    (prog1 (list (script-screen) (progn (script-keys "TAB") (buffer-string)))
      (should-not (overlays-in (point-min) (point-max))))))

(ert-deftest an-unchanged-closer-is-drawn-once-and-stays-where-it-is ()
  (should (equal (script-replacing "f(|)" "a)" 1) '("f(|a)" "f(a)")))
  (should (equal (script-replacing "f(|)" "g(1), 2)" 1) '("f(|g(1), 2)" "f(g(1), 2)")))
  (should (equal (script-replacing "f(|)" "a)
  b()" 1) '("f(|a)
  b()" "f(a)
  b()")))
  (should (equal (script-replacing "f(|)" "
  a,
)" 1) '("f(|
  a,
)" "f(
  a,
)")))
  (should (equal (script-replacing "f(|);" "a) + 1" 1) '("f(|a) + 1;" "f(a) + 1;")))
  (should (equal (script-replacing "f(|)" "a" 0) '("f(|a)" "f(a)"))))

(ert-deftest what-goes-is-struck-out-without-the-end-that-stays ()
  (should (equal (script-replacing "f(|)" "a]" 1) '("f(|a][)]" "f(a]")))
  (should (equal (script-replacing "f(|b))" "a)" 3) '("f(|a[b)])" "f(a)")))
  (should (equal (script-replacing "f(|)" "a;
b" 1) '("f(|a;
b[)]" "f(a;
b"))))

(ert-deftest electric-pairs-keep-the-ghost-text ()
  (unwind-protect
      (with-script "f = |"
        (electric-pair-mode 1)
        (script-keys "g")
        (script-answer "(x)
  y")
        (script-keys "(")
        (should (equal (script-screen) "f = g(|x)
  y"))
        (script-keys "x)")
        (should (equal (script-screen) "f = g(x)|
  y"))
        (script-keys "TAB")
        (should (equal (buffer-string) "f = g(x)
  y")))
    (electric-pair-mode -1)))

(ert-deftest lines-and-words ()
  (with-script ""
    (script-keys "x")
    (script-answer "größe = naïve(1)\n    zwei drei")
    (script-keys "M-f")
    (should (equal (script-ghost) " = naïve(1)\n    zwei drei"))
    (script-keys "M-f")
    (should (equal (script-ghost) " naïve(1)\n    zwei drei"))
    (script-keys "M-e")
    (should (equal (script-ghost) "\n    zwei drei"))
    (script-keys "M-f")
    (should (equal (script-ghost) " drei"))
    (script-keys "M-e")
    (should (equal (buffer-string) "xgröße = naïve(1)\n    zwei drei"))
    (should-not (fastcoder--shown))))

(ert-deftest the-command-runs-after-the-whole ()
  (with-script ""
    (script-keys "x")
    (script-answer '(:insertText "one two" :command (:command "fastcoder.accepted" :arguments [7])))
    (script-keys "M-f")
    (should-not (assq :workspace/executeCommand script-asked))
    (script-keys "TAB")
    (should (equal (cadr (assq :workspace/executeCommand script-asked))
                   '(:command "fastcoder.accepted" :arguments [7])))))

(ert-deftest only-when-asked ()
  (let ((fastcoder-auto nil))
    (with-script ""
      (script-keys "a")
      (should-not script-asked)
      (call-interactively #'fastcoder-ask)
      (script-answer "b")
      (should (equal (script-ghost) "b")))))

(ert-deftest nothing-where-nobody-types ()
  (with-script ""
    (let ((fastcoder-inhibit-functions (list (lambda () t))))
      (script-keys "a")
      (should-not script-asked))))

(defmacro with-ghost (&rest body)
  "Run BODY where the ghost text \"one two\" is shown at the end of \"x\"."
  `(with-script ""
     (script-keys "x")
     (script-answer "one two")
     (should (equal (script-ghost) "one two"))
     ,@body))

(defun script-nothing-p ()
  "Whether nothing is on the screen, no key of ours holds, and no answer is wanted."
  (not (or (fastcoder--shown) fastcoder--visible (overlays-in (point-min) (point-max))
           (fastcoder--completor-asked fastcoder--completor) (fastcoder--completor-timer fastcoder--completor))))

(ert-deftest it-goes-when-another-buffer-or-window-is-selected ()
  (dolist (go (list (lambda () (switch-to-buffer "*scratch*"))
                    (lambda () (select-window (split-window)))
                    (lambda () (select-window (minibuffer-window)))))
    (with-ghost
     (unwind-protect
         (progn (funcall go)
                (run-hooks 'post-command-hook)
                (with-current-buffer buffer (should (script-nothing-p))))
       (select-window (get-largest-window))
       (delete-other-windows)))))

(ert-deftest an-answer-for-a-buffer-that-one-has-left-is-dropped ()
  (with-script ""
    (script-keys "x")
    (switch-to-buffer "*scratch*")
    (script-answer "one")
    (with-current-buffer buffer (should (equal (script-ghost) "")))))

(ert-deftest quitting-drops-the-answer-that-is-awaited ()
  (with-script ""
    (script-keys "x")
    (let ((this-command 'keyboard-quit)) (run-hooks 'post-command-hook))
    (script-answer "one")
    (should (equal (script-ghost) ""))))

(ert-deftest it-is-in-one-window-of-the-buffer ()
  (with-ghost
   (should (eq (overlay-get (fastcoder--shown-overlay (fastcoder--shown)) 'window) (selected-window)))))

(defvar company-candidates)
(defvar company-selection-changed)
(defvar corfu--index)
(defvar corfu--preselect)
(defvar evil-local-mode)
(defvar evil-state)

(ert-deftest it-goes-where-nobody-types-any-more ()
  (dolist (state (list (lambda () (read-only-mode 1))
                       (lambda () (push-mark (point) t t))
                       (lambda () (isearch-mode t))
                       (lambda () (setq defining-kbd-macro t))
                       (lambda () (setq company-candidates '("a") company-selection-changed t))
                       (lambda () (setq completion-in-region-mode t corfu--preselect 0 corfu--index 1))
                       (lambda () (setq evil-local-mode t evil-state 'normal))))
    (let (defining-kbd-macro company-candidates company-selection-changed completion-in-region-mode
          (corfu--index -1) (corfu--preselect -1) evil-local-mode evil-state (transient-mark-mode t))
      (with-ghost
       (unwind-protect
           (progn (funcall state)
                  (run-hooks 'post-command-hook)
                  (should (script-nothing-p))
                  (fastcoder--request 2)
                  (should (= (length script-asked) 1)))
         (setq defining-kbd-macro nil)
         (isearch-done))))))

(ert-deftest a-menu-without-a-selection-leaves-it-there ()
  (let ((company-candidates '("a")) company-selection-changed
        (completion-in-region-mode t) (corfu--index 0) (corfu--preselect 0))
    (with-ghost
     (run-hooks 'post-command-hook)
     (should (equal (script-ghost) "one two")))))

(ert-deftest an-answer-that-comes-during-a-search-is-dropped ()
  (with-script ""
    (script-keys "x")
    (isearch-mode t)
    (unwind-protect
        (progn (script-answer "one")
               (should (equal (script-ghost) "")))
      (isearch-done))))

(ert-deftest repeating-inserts-what-was-accepted-again ()
  (with-ghost
   (execute-kbd-macro (kbd "M-f C-x z"))
   (should (equal (buffer-string) "xoneone"))))

(ert-deftest one-undo-takes-back-what-was-accepted-and-no-more ()
  (with-ghost
   (buffer-enable-undo)
   (script-keys "TAB")
   (should (equal (buffer-string) "xone two"))
   (script-keys "C-/")
   (should (equal (buffer-string) "x"))))

(defun script-said (act)
  "What stands in the echo area after ACT."
  (let (said)
    (cl-letf (((symbol-function 'message)
               (lambda (format &rest arguments) (setq said (and format (apply #'format format arguments))))))
      (funcall act))
    said))

(ert-deftest a-question-by-key-says-that-it-is-asked-and-that-nothing-came ()
  (with-ghost
   (let ((ask (lambda () (call-interactively #'fastcoder-ask))))
     (should (string-match-p "asking" (script-said ask)))
     (should-not (script-said (lambda () (script-answer "one"))))
     (funcall ask)
     (should (string-match-p "no suggestion; .*fastcoder-why" (script-said #'script-answer)))
     (let ((script-status '(:state "loading")))
       (should (string-match-p "loading the model" (script-said ask))))
     (script-answer "one")
     (should (string-match-p "no alternative" (script-said #'fastcoder-next)))
     (setq buffer-read-only t)
     (should (string-match-p "fastcoder-inhibit-functions" (script-said ask))))))

(ert-deftest a-buffer-without-a-server-says-what-to-do ()
  (let ((pipe (make-pipe-process :name "script" :noquery t)))
    (unwind-protect
        (cl-flet ((lost () (cadr (should-error (fastcoder--server-or-lose) :type 'user-error))))
          (with-temp-buffer
            (should (string-match-p "no file" (lost)))
            (setq buffer-file-name "/tmp/script.py")
            (should (string-match-p "M-x eglot" (lost)))
            (let ((other (make-instance 'eglot-lsp-server :process pipe)))
              (cl-letf (((symbol-function 'eglot-current-server) (lambda () other)))
                (should (string-match-p "another server" (lost)))))
            (setq buffer-file-name nil)))
      (delete-process pipe))))

(ert-deftest an-error-is-told-once-and-stays ()
  (let* ((pipe (make-pipe-process :name "script" :noquery t))
         (server (make-instance 'fastcoder-server :process pipe))
         (tell (lambda (state message)
                 (eglot-handle-notification server 'fastcoder/status :state state :message message :hint "Fetch it.")))
         warnings)
    (unwind-protect
        (cl-letf (((symbol-function 'display-warning) (lambda (_type text &rest _) (push text warnings))))
          (funcall tell "error" "No model")
          (funcall tell "error" "No model")
          (should (equal warnings '("No model. Fetch it.")))
          (funcall tell "ready" "")
          (funcall tell "error" "No model")
          (should (= (length warnings) 2)))
      (delete-process pipe))))

(ert-deftest the-server-is-told-that-its-status-is-shown ()
  (let ((pipe (make-pipe-process :name "script" :noquery t)))
    (unwind-protect
        (cl-flet ((options (&rest asked)
                    (let ((server (make-instance 'fastcoder-server :process pipe)))
                      (setf (eglot--saved-initargs server) (and asked (list :initializationOptions asked)))
                      (eglot-initialization-options server))))
          (should (equal (options) '(:client (:showsStatus t))))
          (should (equal (options :enabled t) '(:enabled t :client (:showsStatus t)))))
      (delete-process pipe))))

(ert-deftest figures-before-there-is-a-model-name-none ()
  (fastcoder--show-stats '(:summary "Too early to tell." :model "" :engine "" :host (:shared t :process_id 0 :fronts 0)
                           :suggestions (:shown 0 :accepted 0) :rates nil :requests (:requests 0)
                           :memory (:resident_bytes 0) :ms nil))
  (with-current-buffer "*fastcoder*"
    (should (string-prefix-p "Too early to tell.\n" (buffer-string)))
    (should (string-match-p "^model +not loaded" (buffer-string)))
    (should-not (string-match-p "process\\|()" (buffer-string)))))

(ert-deftest ghost-text-looks-like-no-code-in-any-terminal ()
  (dolist (colours '(0 8 16 256 16777216))
    (dolist (background '(light dark))
      (cl-letf (((symbol-function 'display-color-cells) (lambda (&rest _) colours))
                ((symbol-function 'frame-parameter)
                 (lambda (_frame parameter)
                   (pcase parameter ('background-mode background) ('display-type (if (zerop colours) 'mono 'color))))))
        (cl-flet ((look (face) (face-spec-choose (face-default-spec face))))
          (let ((ghost (look 'fastcoder-ghost)))
            (should (plist-get ghost :slant))
            ;; Many terminals have no italics.
            (should (or (plist-get ghost :underline) (plist-get ghost :foreground)))
            (dolist (other '(font-lock-comment-face font-lock-variable-name-face font-lock-type-face))
              (should-not (equal (plist-get ghost :foreground) (or (plist-get (look other) :foreground) "none"))))))))))

(ert-deftest keys-are-what-they-were-without-ghost-text ()
  (with-script "word word"
    (goto-char (point-min))
    (script-keys "M-f")
    (should (= (point) 5))
    (should (eq (key-binding (kbd "TAB")) 'indent-for-tab-command))))
;; Next edits

(defvar script-told nil "What the server was told, latest first, as (METHOD PARAMS).")

(defmacro with-edits (text &rest body)
  "Run BODY as `with-script' does on TEXT, where the server proposes edits."
  (declare (indent 1))
  `(let ((script-status '(:state "ready" :edits t)) (fastcoder-edit-delay 0) (fastcoder-auto nil) (script-told nil))
     (cl-letf (((symbol-function 'eglot--VersionedTextDocumentIdentifier) (lambda () '(:uri "file:///a" :version 3)))
               ((symbol-function 'jsonrpc-notify) (lambda (_server method params) (push (list method params) script-told)))
               ((symbol-function 'pos-visible-in-window-p) (lambda (&optional at &rest _) (< (abs (- (or at (point)) (point))) 200))))
       (with-script ,text
         (setq-local fastcoder--edit-tick (buffer-chars-modified-tick))
         ,@body
         (fastcoder--clear-edit)))))

(defvar script-elsewhere nil "The latest answer's `elsewhere': t where more files want the same.")

(defun script-edits (&rest edits)
  "Answer the latest question by EDITS, each (BEGIN END TEXT), or URI and so on."
  (let ((uri (if (stringp (car edits)) (pop edits) "file:///a")))
    (funcall (nth 2 (car script-asked))
             (list :elsewhere script-elsewhere
                   :edits (vconcat (mapcar (lambda (edit)
                                             (list :range (list :start (nth 0 edit) :end (nth 1 edit)) :text (nth 2 edit)
                                                   :textDocument (list :uri uri :version 3)
                                                   :command '(:command "accepted" :arguments [7])))
                                           edits))))))

(defun script-drawn ()
  "The buffer with what is struck out in [-…-], and what comes in {+…+}."
  (let ((text (buffer-string)))
    (dolist (overlay (and fastcoder--edit
                          (sort (copy-sequence (fastcoder--edit-overlays fastcoder--edit))
                                (lambda (one other) (> (overlay-start one) (overlay-start other)))))
                     text)
      (let ((from (1- (overlay-start overlay))) (to (1- (overlay-end overlay)))
            (comes (substring-no-properties (overlay-get overlay 'after-string))))
        (setq text (concat (substring text 0 from)
                           (and (< from to) (concat "[-" (substring text from to) "-]"))
                           (and (not (string-empty-p comes)) (concat "{+" comes "+}"))
                           (substring text to)))))))

(defun script-methods (method)
  "How often the server was asked METHOD."
  (cl-count method script-asked :key #'car))

(ert-deftest after-a-change-one-key-makes-the-edit ()
  (with-edits "def f(width):|\n    return width * 2\n"
    (buffer-enable-undo)
    (script-keys "#")
    (should (equal (plist-get (nth 1 (car script-asked)) :context) '(:triggerKind 2)))
    (script-edits '(27 32 "wide") '(35 36 "3"))
    (should (equal (script-drawn) "def f(width):#\n    return wid[-th-]{+e+} * [-2-]{+3+}\n"))
    (should (equal (mapcar #'car script-told) '(:textDocument/didShowInlineEdit :textDocument/didShowInlineEdit)))
    (script-keys "C-f")                 ; moving keeps it
    (should fastcoder--edit)
    (script-keys "TAB")
    (should (equal (buffer-string) "def f(width):#\n    return wide * 3\n"))
    (should (= (point) 35))
    (should (equal (nth 1 (assq :workspace/executeCommand script-asked)) '(:command "accepted" :arguments [7])))
    (script-keys "C-/")
    (should (equal (buffer-string) "def f(width):#\n    return width * 2\n"))
    (should (eq (key-binding (kbd "TAB")) 'indent-for-tab-command))))

(ert-deftest a-far-edit-is-hinted-at-and-gone-to-first ()
  (with-edits (concat "x = 1|\n" (make-string 400 ?\n) "print(x)")
    (script-keys "0")
    (script-edits '(414 415 "y"))
    (should (string-match-p "edit in ↓ line 402 (TAB)" (script-drawn)))
    (script-keys "TAB")
    (should (= (point) 414))
    (should (equal (buffer-substring 408 416) "print(x)"))
    (script-keys "TAB")
    (should (equal (buffer-substring 408 416) "print(y)"))
    (goto-char 1)
    (script-keys "#")
    (script-edits '(415 416 "z"))
    (goto-char 300)
    (run-hooks 'post-command-hook)
    (should fastcoder--edit)            ; nearer
    (script-keys "C-g")
    (should-not fastcoder--edit)
    (should (equal (caar script-told) :fastcoder/editRejected))))

(ert-deftest what-ends-an-edit ()
  (with-edits (concat "x|\n" (make-string 80 ?\n))
    (script-keys "0")
    (script-edits '(1 2 "y"))
    (script-keys "1")                   ; a change
    (should-not fastcoder--edit)
    (script-edits '(1 2 "y"))
    (should fastcoder--edit)
    (goto-char (point-max))             ; far away
    (run-hooks 'post-command-hook)
    (should-not fastcoder--edit)
    (goto-char 2)
    (script-keys "2")
    (insert "late")                     ; the answer is to another text
    (script-edits '(1 2 "y"))
    (should-not fastcoder--edit)))

(ert-deftest ghost-text-comes-before-an-edit ()
  (with-edits "x|\n"
    (script-keys "0")
    (script-edits '(1 2 "y"))
    (fastcoder--request 1)
    (script-answer "one")
    (should-not fastcoder--edit)
    (script-keys "o")
    (should (equal (script-methods :textDocument/copilotInlineEdit) 1))
    (fastcoder-dismiss)
    (script-keys "C-f")                 ; now nothing is in its way
    (should (equal (script-methods :textDocument/copilotInlineEdit) 2))))

(ert-deftest no-edit-is-asked-for-where-none-are-proposed ()
  (with-edits "x|"
    (setq script-status '(:state "ready" :edits :json-false))
    (script-keys "0")
    (should-not script-asked)
    (setq script-status '(:state "ready" :edits t))
    (let ((fastcoder-edits nil)) (script-keys "1"))
    (should-not script-asked)
    (should (string-match-p "next-edit.md" (let (fastcoder-edits) (script-said #'fastcoder-ask-edit))))
    (fastcoder-ask-edit)
    (should (equal (script-kinds) '(1)))
    (should (string-match-p "no edit here" (script-said #'script-edits)))))

(ert-deftest the-server-says-at-its-start-that-it-proposes-edits ()
  (cl-letf (((symbol-function 'eglot--capabilities) (lambda (_) '(:experimental (:fastcoderEdits t))))
            ((symbol-function 'fastcoder--server-status) (lambda (_) script-status)))
    (should (fastcoder--proposes-edits-p 'server))
    (let ((script-status '(:state "ready" :edits :json-false)))
      (should-not (fastcoder--proposes-edits-p 'server)))))

(ert-deftest lines-come-below-those-that-they-replace ()
  (with-edits "one\ntwo\n|"
    (script-keys "0")
    (script-edits '(1 8 "three\nfour") '(9 9 "five\n"))
    (should (equal (script-drawn) "[-one\ntwo-]{+\nthree\nfour+}\n{+five\n+}0"))))

(ert-deftest carriage-returns-neither-come-nor-go ()
  (pcase-dolist (`(,place ,new ,wanted) '(((1 4) "a\nb" "a\r\nb\r\ntwo\r\nlast\n0")
                                          ((4 4) "\nnew" "one\r\nnew\r\ntwo\r\nlast\n0")
                                          ((6 6) "new\n" "one\r\nnew\r\ntwo\r\nlast\n0")
                                          ((2 7) "\n" "o\r\nwo\r\nlast\n0")
                                          ((11 15) "a\nb" "one\r\ntwo\r\na\nb\n0")))
    (with-edits "one\r\ntwo\r\nlast\n|"
      (script-keys "0")
      (script-edits (append place (list new)))
      (goto-char 6)                     ; near it
      (fastcoder-accept-edit)
      (should (equal (buffer-string) wanted)))))

(ert-deftest an-edit-of-another-file-opens-it ()
  (let ((file (make-temp-file "script" nil ".txt" "one\ntwo\n")))
    (unwind-protect
        (with-edits "x|"
          (script-keys "0")
          (script-edits (concat "file://" file) '(5 8 "three"))
          (should (equal (script-drawn) (format "x0{+ edit in %s (TAB)+}" (file-name-nondirectory file))))
          (script-keys "1")
          (let ((script-elsewhere t)) (script-edits (concat "file://" file) '(5 8 "three")))
          (should (equal (script-drawn)
                         (format "x01{+ edit in %s (TAB), fastcoder-edit-everywhere for all+}" (file-name-nondirectory file))))
          (script-keys "TAB")
          (should (equal (buffer-file-name) (file-truename file)))
          (should (equal (script-drawn) "one\nt[-wo-]{+hree+}\n"))
          (fastcoder-accept-edit)
          (should (equal (buffer-string) "one\nthree\n"))
          (set-buffer-modified-p nil)
          (kill-buffer))
      (delete-file file))))

(ert-deftest evil-gives-its-keys-to-an-edit ()
  (with-edits "x|"
    (let ((evil-state 'normal))
      (setq-local evil-local-mode t)
      (defvar evil-local-mode)
      (defvar evil-state)
      (insert "0")
      (run-hooks 'post-command-hook)
      (sleep-for 0.02)
      (script-edits '(1 2 "y"))
      (should fastcoder--edit-in-evil)
      (should (eq (key-binding (kbd "TAB")) 'fastcoder-accept-edit)))))
;;; emacs_client_tests.el ends here
