;;; emacs_driver.el --- Plays scenarios in a real Emacs and prints what is seen  -*- lexical-binding: t; -*-

;; emacs --batch -q -l emacs_driver.el FASTCODER.EL FILE SCENARIO…
;; prints what was seen as its last line, in JSON: {scenario: …}.  One Emacs and one server play them all, each in the
;; file as it is on the disk.  Keys are typed through the command loop, so that hooks and keymaps take part as they do
;; for a user.

(require 'json)
(require 'eglot)
(setq eglot-sync-connect 120 eglot-connect-timeout 120 eglot-autoshutdown t create-lockfiles nil make-backup-files nil
      python-indent-guess-indent-offset nil inhibit-message t)

(defun driver-wait (holds what &optional seconds)
  "Let Emacs work until HOLDS; fail with WHAT after SECONDS."
  (let ((end (+ (float-time) (or seconds 60))))
    (while (not (funcall holds))
      (when (> (float-time) end) (error "Not in time: %s" what))
      (accept-process-output nil 0.02))))

(defun driver-type (text)
  "Type TEXT as keys."
  (dolist (letter (string-to-list text))
    (execute-kbd-macro (vector letter))))

(defun driver-ghost ()
  "The ghost text as it is drawn."
  (if (fastcoder--shown)
      (substring-no-properties (overlay-get (fastcoder--shown-overlay (fastcoder--shown)) 'after-string))
    ""))

(defun driver-server-text ()
  "The server's own copy of the buffer."
  (eglot--signal-textDocument/didChange)
  (plist-get (jsonrpc-request (eglot--current-server-or-lose) :fastcoder/debug/text
                              (list :uri (plist-get (eglot--TextDocumentIdentifier) :uri)))
             :text))

(defconst driver-typed "    return sorted(")

(defun driver-open (file)
  "Go below the docstring of an unfinished function in FILE, as it is on the disk."
  (if (get-file-buffer file)
      (with-current-buffer (get-file-buffer file)
        (fastcoder-dismiss)
        (erase-buffer)
        (insert-file-contents file))
    (find-file file)
    (call-interactively #'eglot))
  (switch-to-buffer (get-file-buffer file))
  (goto-char (point-min))
  (search-forward "largest first.\"\"\"\n"))

(defun driver-type-for-ghost (typed)
  "Type TYPED and wait for ghost text; return it."
  (driver-type typed)
  (driver-wait #'fastcoder--shown "ghost text")
  (driver-ghost))

(defun driver-since (start)
  "The text from START to point."
  (buffer-substring-no-properties start (point)))

(defun driver-state ()
  "What the server said of itself last."
  (plist-get (fastcoder--server-status (fastcoder--server-or-lose)) :state))

(defun driver-seen (&rest more)
  "Both copies of the text, and MORE."
  (append (list :visible (and (fastcoder--shown) t)
                :buffer (buffer-substring-no-properties (point-min) (point-max))
                :server (driver-server-text))
          more))

(defun driver-accept-after (typed)
  "Type TYPED, the first letters of what is suggested, accept a word, then the rest."
  (let* ((start (point))
         (ghost (driver-type-for-ghost typed))
         (rest (progn (driver-type (substring ghost 0 2)) (driver-ghost)))
         (word (progn (execute-kbd-macro (kbd "M-f")) (driver-since start)))
         (last (progn (driver-wait #'fastcoder--shown "the rest") (driver-ghost))))
    (execute-kbd-macro (kbd "TAB"))
    (driver-seen :typed typed :ghost ghost :rest rest :word word :last last :accepted (driver-since start))))

(defun driver-loading ()
  "Watch the mode line while the model loads."
  (let (seen)
    (advice-add 'force-mode-line-update :after
                (lambda (&rest _) (push (string-trim (fastcoder--lighter)) seen)))
    (driver-type-for-ghost driver-typed)
    (driver-wait (lambda () (equal (driver-state) "ready")) "ready")
    (advice-mapc (lambda (f _) (advice-remove 'force-mode-line-update f)) 'force-mode-line-update)
    (list :seen (vconcat (reverse seen)) :at-last (string-trim (fastcoder--lighter)))))

(defun driver-accept ()
  "Plain text."
  (driver-accept-after driver-typed))

(defun driver-astral ()
  "Characters that take two units of UTF-16."
  (driver-accept-after "    crabs = ['🦀', '𝔘'] + list(expenses)[:"))

(defun driver-line-and-undo ()
  "Accept a line, undo it."
  (let* ((start (point)) (ghost (driver-type-for-ghost driver-typed)) accepted)
    (undo-boundary)
    (execute-kbd-macro (kbd "M-e"))
    (setq accepted (driver-since start))
    (execute-kbd-macro (kbd "C-/"))
    (list :ghost ghost :accepted accepted
          :undone (buffer-substring-no-properties start (save-excursion (goto-char start) (line-end-position))))))

(defun driver-alternative ()
  "Turn to the second of several, and accept it."
  (let ((start (point)) (first (driver-type-for-ghost driver-typed)) second)
    (execute-kbd-macro (kbd "M-n"))
    (driver-wait (lambda () (string-match-p " 2/[0-9]\\'" (driver-ghost))) "the second of several")
    (setq second (substring (driver-ghost) 0 -4))
    (execute-kbd-macro (kbd "TAB"))
    (driver-seen :first first :second second :accepted (driver-since start))))

(defun driver-dismiss ()
  "Take the ghost text away."
  (driver-type-for-ghost driver-typed)
  (execute-kbd-macro (kbd "C-g"))
  (list :visible (and (fastcoder--shown) t)))

(defun driver-settings ()
  "Exclude the language, then allow it again."
  (driver-type-for-ghost driver-typed)
  (let (excluded)
    (setq-default eglot-workspace-configuration '(:fastcoder (:languages (:exclude ["python"]))))
    (eglot-signal-didChangeConfiguration (eglot-current-server))
    (driver-type " ")
    (execute-kbd-macro (kbd "DEL"))
    (sleep-for 0.7)
    (setq excluded (driver-ghost))
    (setq-default eglot-workspace-configuration '(:fastcoder (:languages (:exclude []))))
    (eglot-signal-didChangeConfiguration (eglot-current-server))
    (driver-type " ")
    (execute-kbd-macro (kbd "DEL"))
    (driver-wait #'fastcoder--shown "ghost text again")
    (list :excluded excluded)))

(defun driver-late ()
  "See when the server says that a suggestion is made, and when it is drawn; then ask why it was late."
  (let ((fastcoder--again nil) told drawn)
    (advice-add 'fastcoder--take-late :before (lambda (&rest _) (setq told (float-time))) '((name . driver)))
    (advice-add 'fastcoder--show :after (lambda (&rest _) (setq drawn (float-time))) '((name . driver)))
    (driver-type-for-ghost "    return ")
    (advice-remove 'fastcoder--take-late 'driver)
    (advice-remove 'fastcoder--show 'driver)
    (call-interactively #'fastcoder-why)
    (driver-wait (lambda () (get-buffer "*fastcoder why*")) "the explanation")
    (list :told (and told t) :ms (and told (* 1000 (- drawn told))) :ghost (driver-ghost)
          :why (with-current-buffer "*fastcoder why*" (buffer-string)))))

(defun driver-toggle ()
  "Switch off and on."
  (driver-type-for-ghost driver-typed)
  (call-interactively #'fastcoder-toggle)
  (driver-wait (lambda () (equal (driver-state) "off")) "off")
  (driver-wait (lambda () (not (fastcoder--shown))) "nothing shown")
  (let ((off (string-trim (fastcoder--lighter))))
    (execute-kbd-macro (kbd "DEL"))
    (sleep-for 0.5)
    (let ((shown (driver-ghost)))
      (call-interactively #'fastcoder-toggle)
      (driver-wait (lambda () (not (equal (driver-state) "off"))) "on")
      (driver-type-for-ghost (substring driver-typed -1))
      (list :off off :shown shown))))

(defun driver-stats ()
  "Show the figures."
  (call-interactively #'fastcoder-stats)
  (driver-wait (lambda () (get-buffer "*fastcoder*")) "the figures")
  (list :text (with-current-buffer "*fastcoder*" (buffer-string))))

(defun driver-killed-server ()
  "Kill the server; Eglot starts another, and the ghost text comes back."
  (driver-type-for-ghost driver-typed)
  (let ((dead (eglot-current-server)))
    (sleep-for (max 0 eglot-autoreconnect)) ; one that dies sooner is not started again
    (signal-process (jsonrpc--process dead) 'SIGKILL)
    (driver-wait (lambda () (and (fastcoder--server) (not (eq dead (fastcoder--server))) fastcoder-mode))
                 "another server")
    (execute-kbd-macro (kbd "DEL"))
    (driver-type-for-ghost (substring driver-typed -1))
    (driver-seen)))

(defun driver-everywhere ()
  "Rename a function, see the diff of the other file, make it there, and undo it."
  (goto-char (point-min))
  (search-forward "load")
  (backward-kill-word 1)
  (driver-type "fetch")
  (let* ((origin (current-buffer))
         (file (expand-file-name "cart.py" (file-name-directory buffer-file-name)))
         (text (lambda () (with-current-buffer (find-file-noselect file) (buffer-string))))
         shown made)
    (driver-wait (lambda ()
                   (with-current-buffer origin (fastcoder-edit-everywhere))
                   (accept-process-output nil 0.3)
                   (setq shown (get-buffer "*fastcoder everywhere*")))
                 "the diff" 15)
    (switch-to-buffer shown)
    (let ((diff (buffer-string)) (before (funcall text)))
      (execute-kbd-macro (kbd "RET"))
      (driver-wait (lambda () (not (equal before (setq made (funcall text))))) "the edit")
      (driver-wait (lambda () fastcoder--made-everywhere) "its record")
      (with-current-buffer origin (fastcoder-undo-everywhere))
      (let ((undone (funcall text)))
        (with-current-buffer (get-file-buffer file) (set-buffer-modified-p nil))
        (list (cons 'diff diff) (cons 'made made) (cons 'undone undone)
              (cons 'disk (with-temp-buffer (insert-file-contents file) (buffer-string))))))))

(defun driver-edit ()
  "Wait for the next edit above point, go there, make it, undo it."
  (advice-add 'pos-visible-in-window-p :override #'always) ; in batch mode nothing is
  (driver-type "    x = 1")
  (driver-wait (lambda () fastcoder--edit) "an edit")
  (let ((before (driver-server-text)) drawn)
    (execute-kbd-macro (kbd "TAB"))
    (setq drawn (thing-at-point 'line t))
    (execute-kbd-macro (kbd "TAB"))
    (let ((made (driver-server-text)))
      (execute-kbd-macro (kbd "C-/"))
      (list :before before :drawn drawn :made made :undone (driver-server-text)))))

(defun driver-popup ()
  "Complete at point."
  (driver-type "    return sort")
  (let ((start (line-beginning-position)) (tick (buffer-chars-modified-tick)))
    (driver-wait (lambda () (completion-at-point) (/= tick (buffer-chars-modified-tick))) "a completion")
    (driver-seen :accepted (driver-since start))))

(defun driver-wait-to-be-killed ()
  "Type, and stay."
  (driver-type-for-ghost driver-typed)
  (sleep-for 600))

(pcase-let ((`(,fastcoder ,file . ,scenarios) command-line-args-left))
  (setq command-line-args-left nil)
  (load fastcoder nil t)
  (if (member "popup" scenarios)        ; nothing of ours but the server
      (add-to-list 'eglot-server-programs '(python-mode . ("fastcoder-lsp" "serve")))
    (when (member "edit" scenarios)
      (setq fastcoder-command
            '("fastcoder-lsp" "serve" :initializationOptions (:edits (:model "sweep-next-edit-toy" :threshold 0)))))
    (fastcoder-setup '(python-mode)))
  (let ((seen (mapcar (lambda (scenario)
                        (driver-open file)
                        (cons scenario (funcall (intern (concat "driver-" scenario)))))
                      scenarios)))
    (with-current-buffer (get-file-buffer file) (set-buffer-modified-p nil))
    (terpri)                            ; bells ring into stdout
    (princ (json-encode seen))
    (terpri)))
;;; emacs_driver.el ends here
